// What the data suite is read for.
#include "bench/data/data_suite.h"

namespace moonpool::bench {
namespace {

Figure Rate(const std::string& name, const std::string& ours, const std::string& limit,
            Bound bound = Bound::kNone, double at_least = 0) {
  return {.name = name, .of = ours, .over = limit, .bound = bound, .limit = at_least};
}

// Of one call; over the limit's if there is one.
Figure Latency(const std::string& name, const std::string& ours, const std::string& limit,
               Bound bound = Bound::kNone, double at_most = 0) {
  return {.name = name,
          .of = ours,
          .field = Field::kP50Micros,
          .over = limit,
          .bound = bound,
          .limit = at_most};
}

}  // namespace

std::vector<Figure> DataSuite::Figures() {
  constexpr auto kAtLeast = Bound::kAtLeast;
  constexpr auto kAtMost = Bound::kAtMost;
  return {
      Rate("shm_get_1m_vs_memcpy", "shm_get_1m_1t_b32", "memcpy_get_1m_b32", kAtLeast, 1),
      Rate("shm_put_1m_vs_memcpy", "shm_put_1m_1t_b32", "memcpy_put_1m_b32", kAtLeast, 0.85),
      Rate("shm_get_64k_vs_memcpy", "shm_get_64k_1t_b32", "memcpy_get_64k_b32", kAtLeast, 0.8),
      Rate("shm_get_16m_vs_memcpy", "shm_get_16m_1t_b4", "memcpy_get_16m_b4"),
      Latency("shm_get_1m_single_p50_vs_memcpy", "shm_get_1m_1t_b1", "memcpy_get_1m"),
      Latency("shm_get_4k_p50_vs_unix_pingpong", "shm_get_4k_1t_b1", "unix_pingpong", kAtMost, 1),
      Latency("shm_view_p50_us", "shm_view_1m", "", kAtMost, 5),
      Rate("tcp_get_1m_vs_raw", "tcp_get_1m_1t_b32", "raw_tcp_get_1m", kAtLeast, 0.75),
      Rate("tcp_put_1m_vs_raw", "tcp_put_1m_1t_b32", "raw_tcp_put_1m", kAtLeast, 0.75),
      Rate("tcp_get_64k_vs_raw", "tcp_get_64k_1t_b32", "raw_tcp_get_64k", kAtLeast, 0.6),
      Latency("tcp_get_1m_single_p50_vs_raw", "tcp_get_1m_1t_b1", "raw_tcp_get_1m_single", kAtMost,
              1.25),
      Latency("tcp_get_4k_p50_vs_raw", "tcp_get_4k_1t_b1", "raw_tcp_get_4k_single", kAtMost, 1.5),
      Rate("shm_get_1m_4t_vs_1t", "shm_get_1m_4t_b32", "shm_get_1m_1t_b32", kAtLeast, 0.95),
      Rate("shm_put_1m_4t_vs_1t", "shm_put_1m_4t_b32", "shm_put_1m_1t_b32", kAtLeast, 0.95),
      Rate("tcp_get_1m_4t_vs_1t", "tcp_get_1m_4t_b32", "tcp_get_1m_1t_b32", kAtLeast, 0.95),
      Rate("tcp_put_1m_4t_vs_1t", "tcp_put_1m_4t_b32", "tcp_put_1m_1t_b32", kAtLeast, 0.95),
      Rate("tcp_get_1m_4t_vs_raw", "tcp_get_1m_4t_b32", "raw_tcp_get_1m_4t"),
      Rate("tcp_put_1m_4t_vs_raw", "tcp_put_1m_4t_b32", "raw_tcp_put_1m_4t"),
      {.name = "checksum_cost_tcp_1m",
       .of = "tcp_get_1m_1t_b32",
       .over = "tcp_get_1m_1t_b32_unverified",
       .bound = kAtMost,
       .limit = 0.2,
       .is_loss = true},
      {.name = "cpu_seconds_per_gb",
       .of = "tcp_get_1m_1t_b32",
       .field = Field::kCpuSeconds,
       .bound = kAtMost,
       .limit = 0.5},
  };
}

}  // namespace moonpool::bench
