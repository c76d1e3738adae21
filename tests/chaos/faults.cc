#include "tests/chaos/faults.h"

#include "common/check.h"

namespace moonpool::chaos {
namespace {

constexpr size_t kPerRoundMax = 6;
constexpr int64_t kSpreadMillis = 4000;
constexpr int64_t kShortestMillis = 50;
constexpr int64_t kLongestMillis = 4000;

bool IsPossible(FaultKind kind, const Shape& shape) {
  return shape.has_etcd() || (kind != FaultKind::kKillEtcd && kind != FaultKind::kPauseEtcd);
}

size_t TargetsOf(FaultKind kind, const Shape& shape) {
  switch (kind) {
    case FaultKind::kKillNode:
    case FaultKind::kWipeNode:
    case FaultKind::kPauseNode: return shape.nodes;
    case FaultKind::kKillMaster:
    case FaultKind::kPauseMaster: return shape.masters;
    case FaultKind::kKillClient:
    case FaultKind::kPauseClient: return shape.clients;
    case FaultKind::kKillEtcd:
    case FaultKind::kPauseEtcd: return 1;
    case FaultKind::kCutOneWay:
    case FaultKind::kCutBothWays:
    case FaultKind::kIsolate: return shape.hosts;
  }
  return 0;
}

absl::Duration Millis(Random& random, int64_t from, int64_t to) {
  return absl::Milliseconds(from +
                            static_cast<int64_t>(random.Below(static_cast<uint64_t>(to - from))));
}

}  // namespace

absl::string_view FaultName(FaultKind kind) {
  switch (kind) {
    case FaultKind::kKillNode: return "kill_node";
    case FaultKind::kWipeNode: return "wipe_node";
    case FaultKind::kKillMaster: return "kill_master";
    case FaultKind::kKillClient: return "kill_client";
    case FaultKind::kKillEtcd: return "kill_etcd";
    case FaultKind::kPauseNode: return "pause_node";
    case FaultKind::kPauseMaster: return "pause_master";
    case FaultKind::kPauseClient: return "pause_client";
    case FaultKind::kPauseEtcd: return "pause_etcd";
    case FaultKind::kCutOneWay: return "cut_one_way";
    case FaultKind::kCutBothWays: return "cut_both_ways";
    case FaultKind::kIsolate: return "isolate";
  }
  return "unknown";
}

std::vector<Fault> MakeRound(const Shape& shape, Random& random) {
  MP_CHECK(shape.hosts > 1, "nothing to cut");
  std::vector<Fault> round(1 + random.Below(kPerRoundMax));
  for (Fault& fault : round) {
    do {
      fault.kind = static_cast<FaultKind>(random.Below(kFaultKinds));
    } while (!IsPossible(fault.kind, shape));
    fault.target = random.Below(TargetsOf(fault.kind, shape));
    fault.other = (fault.target + 1 + random.Below(shape.hosts - 1)) % shape.hosts;
    fault.after = Millis(random, 0, kSpreadMillis);
    fault.lasts = Millis(random, kShortestMillis, kLongestMillis);
  }
  return round;
}

}  // namespace moonpool::chaos
