// What the data suite is read for.
#include "bench/data/data_suite.h"

namespace moonpool::bench {
namespace {

// How many times faster a call is than the limit's, by the median times of both: one that was
// preempted does not count, on either side.
Figure Speed(const std::string& name, const std::string& ours, const std::string& limit,
             Bound bound = Bound::kNone, double at_least = 0) {
  return {.name = name,
          .of = limit,
          .field = Field::kP50Micros,
          .over = ours,
          .bound = bound,
          .limit = at_least};
}

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
  return {
      Speed("shm_get_1m_vs_memcpy", "shm_get_1m_1t_b1", "memcpy_get_1m", Bound::kAtLeast, 1),
      Speed("shm_put_1m_vs_memcpy", "shm_put_1m_1t_b1", "memcpy_put_1m"),
      Speed("shm_get_64k_vs_memcpy", "shm_get_64k_1t_b1", "memcpy_get_64k"),
      Speed("shm_get_16m_vs_memcpy", "shm_get_16m_1t_b1", "memcpy_get_16m"),
      Rate("shm_get_1m_batch_vs_memcpy", "shm_get_1m_1t_b32", "memcpy_get_1m"),
      Rate("shm_put_1m_batch_vs_memcpy", "shm_put_1m_1t_b32", "memcpy_put_1m"),
      Latency("shm_get_4k_p50_us", "shm_get_4k_1t_b1", ""),
      Latency("shm_view_p50_us", "shm_view_1m", "", Bound::kAtMost, 5),
      Rate("tcp_get_1m_vs_raw", "tcp_get_1m_1t_b32", "raw_tcp_get_1m", Bound::kAtLeast, 0.75),
      Rate("tcp_put_1m_vs_raw", "tcp_put_1m_1t_b32", "raw_tcp_put_1m", Bound::kAtLeast, 0.75),
      Rate("tcp_get_64k_vs_raw", "tcp_get_64k_1t_b32", "raw_tcp_get_64k"),
      Latency("tcp_get_1m_single_p50_vs_raw", "tcp_get_1m_1t_b1", "raw_tcp_get_1m_single",
              Bound::kAtMost, 1.25),
      Latency("tcp_get_4k_p50_vs_raw", "tcp_get_4k_1t_b1", "raw_tcp_get_4k_single"),
      Rate("shm_get_1m_4t_vs_1t", "shm_get_1m_4t_b32", "shm_get_1m_1t_b32"),
      Rate("shm_put_1m_4t_vs_1t", "shm_put_1m_4t_b32", "shm_put_1m_1t_b32"),
      Rate("tcp_get_1m_4t_vs_1t", "tcp_get_1m_4t_b32", "tcp_get_1m_1t_b32"),
      Rate("tcp_put_1m_4t_vs_1t", "tcp_put_1m_4t_b32", "tcp_put_1m_1t_b32"),
      {.name = "checksum_cost_tcp_1m",
       .of = "tcp_get_1m_1t_b32",
       .over = "tcp_get_1m_1t_b32_unverified",
       .bound = Bound::kAtMost,
       .limit = 0.2,
       .is_loss = true},
  };
}

}  // namespace moonpool::bench
