// What is looked at every now and then, and at the end, with everything healed.
#include <optional>

#include "absl/strings/str_cat.h"
#include "tests/sim/cluster_run.h"
#include "tests/sim/probes.h"

namespace moonpool::sim {
namespace {

constexpr absl::Duration kCheckEvery = absl::Milliseconds(100);

}  // namespace

void Cluster::ScheduleCheck() {
  scheduler_.After(kCheckEvery, [this] {
    CheckMasters();
    CheckPlacement();
    if (is_recovering_ && MasterKnowsAll()) {
      is_recovering_ = false;
      model_.MasterRecovered(scheduler_.Now());
    }
    if (MasterKnowsAll()) model_.NodesAreBack(scheduler_.Now());
    if (scheduler_.Now() < end_ + kQuiesce) ScheduleCheck();
  });
}

void Cluster::CheckMasters() {
  size_t leaders = 0;
  for (size_t i = 0; i < masters_.size(); ++i) {
    if (!masters_.at(i).leads()) continue;
    ++leaders;
    const absl::Status status = masters_.at(i).core().CheckInvariants();
    if (!status.ok()) Violate(absl::StrCat("master: ", status.message()));
  }
  if (leaders > 1) Violate("two masters answer as the leader");
  if (SimMaster* const leader = masters_.leader()) watcher_.Read(*leader);
}

void Cluster::CheckPlacement() {
  SimMaster* const leader = masters_.leader();
  if (leader == nullptr || options_.drains == 0) return;
  Violate(placement_.Watch(leader->core(), leader->reign(), leader->Now()));
  Violate(operator_.Check(leader->core(), leader->Now()));
}

void Cluster::FinalChecks() {
  if (!violation_.empty()) return;
  SimMaster* const leader = masters_.leader();
  if (leader == nullptr) return Violate("nobody leads");
  if (is_recovering_) return Violate("the master never had all inventories");
  const master::StatusResult status = leader->core().GetStatus(leader->Now());
  const uint64_t grants = status.open_grants + status.spare_grants;
  if (grants != 0) Violate(absl::StrCat(grants, " grants never ended"));
  if (status.live_leases != 0) Violate(absl::StrCat(status.live_leases, " leases never ended"));
  if (status.condemned_bytes != 0) {
    Violate(absl::StrCat(status.condemned_bytes, " condemned bytes never freed"));
  }
  if (status.nodes_up != static_cast<uint32_t>(options_.nodes)) {
    Violate(absl::StrCat(status.nodes_up, " of ", options_.nodes, " nodes came back"));
  }
  if (status.tombstones != 0) {
    Violate(absl::StrCat(status.tombstones, " removals were never confirmed"));
  }
  CheckObjects(*leader);
  Violate(watcher_.Compare(*leader));
  ReadBack();
  for (const auto& node : nodes_) {
    const bool is_called_off = operator_.has_asked(node->name()) &&
                               operator_.IsDrained(node->name()) == SimOperator::Drained::kNo;
    if (!node->crashed() && is_called_off) UseAgain(node->name());
  }
}

void Cluster::CheckObjects(const SimMaster& leader) {
  PlacementCheck::Sum sum;
  Violate(PlacementCheck::AtTheEnd(
      leader.core(), leader.Now(),
      {.is_spread = options_.spreads_replicas(),
       .knows_wishes = options_.keeps_wishes(),
       .wished = [this](const std::string& key) { return model_.WishedByAll(key); }},
      &sum));
  probes_["objects with all replicas"] += sum.replicated;
  probes_["objects spread"] += sum.spread;
  probes_["objects short without room"] += sum.without_room;
  probes_["drained nodes empty"] += sum.drained_empty;
  probes_["drained nodes without room elsewhere"] += sum.drained_stuck;
  probes_["events told"] += watcher_.events();
  probes_["streams of events resumed"] += watcher_.resumed();
  probes_["streams of events begun anew"] += watcher_.resets();
}

void Cluster::UseAgain(const std::string& node) {
  const std::optional<uint64_t> index = options_.ClientsOnlyOn(node);
  SimMaster* const leader = masters_.leader();
  if (!index.has_value() || leader == nullptr || !violation_.empty()) return;
  constexpr uint64_t kAmple = 4096;
  for (const master::NodeStatus& status : leader->core().ListNodes(leader->Now())) {
    if (status.address.name == node && status.segments[0].largest_free_bytes < kAmple) return;
  }
  while ((last_client_ + 1) % static_cast<uint64_t>(options_.nodes) != *index) ++last_client_;
  SimClient* const client = NewClient();
  const std::string key = absl::StrCat("again/", node);
  scheduler_.Spawn(client->host(), [client, key] { client->PutOne(key); });
  RunUntil(scheduler_.Now() + absl::Seconds(10));
  const auto why = leader->core().Why("", key, leader->Now());
  if (!why.ok() || why->replicas.empty()) return Violate(absl::StrCat(key, " was not stored"));
  const auto address = leader->core().AddressOf(why->replicas[0].parts[0].node);
  if (address.has_value() && address->name != node) {
    return Violate(absl::StrCat(node, " is drained no more, and what was put on its host is on ",
                                address->name));
  }
  ++probes_["nodes used again"];
}

void Cluster::ReadBack() {
  SimClient* const client = NewClient();
  scheduler_.Spawn(client->host(), [client] { client->ReadEverything(); });
  RunUntil(scheduler_.Now() + kQuiesce);
}

}  // namespace moonpool::sim
