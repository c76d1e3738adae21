#include "bench/replay/report.h"

#include <algorithm>
#include <limits>

#include "absl/container/flat_hash_set.h"
#include "bench/measure/stopwatch.h"
#include "bench/trace/ideal.h"
#include "common/types.h"

namespace moonpool::replay {
namespace {

constexpr uint64_t kHeldFraction = 5;
constexpr uint64_t kLeastBlockBytes = 4096;
constexpr uint64_t kMostBlockBytes = uint64_t{1} << 20;
constexpr uint64_t kBlockStep = 512;

// Of all clients together: each spent its share of the time in calls.
double Rate(uint64_t bytes, const bench::LatencyHistogram& calls, size_t clients) {
  return bench::GigabytesPer(bytes, calls.total() / static_cast<int64_t>(clients));
}

}  // namespace

double Report::hit_rate() const {
  const Tally& tally = play.tally;
  return tally.blocks == 0
             ? 0
             : static_cast<double>(tally.hit_blocks) / static_cast<double>(tally.blocks);
}

double Report::get_gbps() const { return Rate(play.tally.get_bytes, play.tally.get, clients); }
double Report::put_gbps() const { return Rate(play.tally.put_bytes, play.tally.put, clients); }

Report MakeReport(const trace::Trace& trace, const PlayOptions& options, PoolFacts pool,
                  PlayResult play) {
  Report report;
  report.trace_name = trace.name;
  report.block_bytes = options.engine.block_bytes;
  report.capacity_blocks = pool.capacity_bytes / options.engine.block_bytes;
  report.clients = options.clients;
  report.pool = std::move(pool);
  report.play = std::move(play);
  report.ideal_unbounded = trace::UnboundedHits(trace).rate();
  const auto capacity =
      std::min<uint64_t>(report.capacity_blocks, std::numeric_limits<uint32_t>::max());
  if (capacity > 0) {
    report.ideal_optimal = trace::OfflineOptimalHits(trace, static_cast<uint32_t>(capacity)).rate();
  }
  return report;
}

nlohmann::ordered_json ToJson(const Report& report) {
  const Tally& tally = report.play.tally;
  return {{"trace", report.trace_name},
          {"requests", tally.requests},
          {"blocks", tally.blocks},
          {"hit_blocks", tally.hit_blocks},
          {"hit_rate", report.hit_rate()},
          {"ideal_unbounded", report.ideal_unbounded},
          {"ideal_optimal", report.ideal_optimal},
          {"policy", report.pool.policy},
          {"evicted", report.pool.evicted},
          {"wrong_bytes", tally.wrong_bytes},
          {"errors", tally.errors},
          {"refused", tally.refused},
          {"lost_after_match", tally.lost_after_match},
          {"stored_blocks", tally.stored_blocks},
          {"stored_by_others", tally.stored_by_others},
          {"block_bytes", report.block_bytes},
          {"capacity_blocks", report.capacity_blocks},
          {"clients", report.clients},
          {"batch_blocks", report.play.batch_blocks},
          {"seconds", absl::ToDoubleSeconds(report.play.elapsed)},
          {"get_bytes", tally.get_bytes},
          {"put_bytes", tally.put_bytes},
          {"get_gbps", report.get_gbps()},
          {"put_gbps", report.put_gbps()},
          {"p50_match_us", tally.match.QuantileMicros(0.5)},
          {"p99_match_us", tally.match.QuantileMicros(0.99)},
          {"p50_get_us", tally.get.QuantileMicros(0.5)},
          {"p99_get_us", tally.get.QuantileMicros(0.99)},
          {"p50_put_us", tally.put.QuantileMicros(0.5)},
          {"p99_put_us", tally.put.QuantileMicros(0.99)}};
}

uint64_t DerivedBlockBytes(const trace::Trace& trace, uint64_t capacity_bytes) {
  absl::flat_hash_set<uint64_t> distinct;
  for (const trace::Request& request : trace.requests) {
    distinct.insert(request.blocks.begin(), request.blocks.end());
  }
  const uint64_t held = std::max<uint64_t>(distinct.size() / kHeldFraction, 1);
  const uint64_t bytes = std::clamp(capacity_bytes / held, kLeastBlockBytes, kMostBlockBytes);
  return bytes / kBlockStep * kBlockStep - kPartHeaderBytes;
}

}  // namespace moonpool::replay
