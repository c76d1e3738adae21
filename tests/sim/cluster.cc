#include "tests/sim/cluster.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/log.h"
#include "tests/sim/cluster_run.h"
#include "tests/sim/probes.h"

namespace moonpool::sim {
namespace {

master::CoreOptions CoreOptionsOf(const SimOptions& options) {
  master::CoreOptions core;
  core.eviction_policy = options.eviction_policy;
  core.stripe_bytes = options.stripe_bytes;
  core.min_part_bytes = options.min_part_bytes;
  core.max_grant = absl::Seconds(8);
  core.obituaries = options.obituaries;
  core.registry_open = absl::ZeroDuration();  // no node was here before
  return core;
}

}  // namespace

Cluster::Cluster(const SimOptions& options)
    : options_(options),
      random_(options.seed ^ 0x5eed),
      network_(scheduler_, Random(random_.Next()), options.faults.network),
      fabric_(scheduler_, network_, Random(random_.Next())),
      model_(Excuses{
          .nodes_lost = options.faults.loses_parts(),
          .nodes_killed = options.faults.node_kills > 0,
          .network_faults = options.faults.disturbs_network(),
          .evicts = options.may_evict(),
          .master_crashes = options.may_change_master(),
          .slow_callers = options.faults.client_freezes > 0,
          .meta_failures = options.faults.meta_failures > 0,
          .forgetful = options.obituaries < SimOptions().obituaries,
          .keeps_state = options.keeps_state,
      }),
      masters_(scheduler_, network_, options.masters,
               {.core = CoreOptionsOf(options),
                .handlers = {},
                .keeps_state = options.keeps_state,
                .meta_failures = options.faults.meta_failures,
                .wall_clock = {options.seed, options.faults.clock_jumps},
                .clock_offset = absl::ZeroDuration(),
                .on_begin = [this] { ReignBegins(); }},
               Random(random_.Next())),
      operator_(scheduler_, masters_, [this](absl::string_view what) { Violate(what); }) {
  fabric_.faults() = options.faults.data;
  if (masters_.etcd() != nullptr) masters_.etcd()->set_faults(options.faults.etcd);
}

SimResult Cluster::Run() {
  const absl::Time begin = scheduler_.Now();
  while (next_node_ < options_.nodes) StartNode(absl::StrCat("node-", next_node_++));
  RunUntil(begin + absl::Seconds(2));
  end_ = scheduler_.Now() + options_.duration;
  for (int i = 0; i < options_.clients; ++i) StartClient();
  ScheduleFaults();
  ScheduleCheck();
  RunUntil(end_);
  HealEverything();
  RunUntil(end_ + kQuiesce);
  FinalChecks();
  return Finish(begin);
}

void Cluster::RunUntil(absl::Time limit) {
  scheduler_.Run(limit, [this] { return !violation_.empty(); });
}

void Cluster::Violate(absl::string_view what) {
  if (violation_.empty() && !what.empty()) {
    violation_ = absl::StrCat(what, " (at ",
                              absl::FormatDuration(scheduler_.Now() - absl::UnixEpoch()), ")");
  }
}

void Cluster::StartNode(const std::string& name, SimPool pool) {
  nodes_.push_back(std::make_unique<SimNode>(fabric_, masters_, options_.LabelsOf(name),
                                             std::move(pool), Random(random_.Next())));
  nodes_.back()->Start();
}

SimClient* Cluster::NewClient() {
  const uint64_t id = ++last_client_;
  const ClientWorld world{
      .scheduler = scheduler_,
      .network = network_,
      .fabric = fabric_,
      .masters = masters_,
      .model = model_,
      .options = options_,
      .logger = Logger::Null(),
      .violation = &violation_,
      .all_knowing_master = [this] { return MasterKnowsAll() ? masters_.leader()->reign() : 0; }};
  clients_.push_back(
      std::make_unique<SimClient>(world, absl::StrCat("client-", id), id, Random(random_.Next())));
  return clients_.back().get();
}

void Cluster::StartClient() {
  SimClient* const client = NewClient();
  scheduler_.Spawn(client->host(), [this, client] { client->Work(end_); });
}

void Cluster::ReignBegins() {
  ++probes_["reigns"];
  if (std::exchange(has_led_, true)) {
    ++probes_["changes of leader"];
    if (!options_.may_change_master()) Violate("another reign begins, and nothing had failed");
  }
  MasterIsUnknowing();
}

void Cluster::MasterIsUnknowing() {
  model_.MasterCrashed(scheduler_.Now());
  if (!options_.keeps_state) operator_.AllIsForgotten();
  is_recovering_ = true;
}

bool Cluster::MasterKnowsAll() {
  SimMaster* const leader = masters_.leader();
  if (leader == nullptr || !killed_.empty()) return false;
  std::set<std::pair<std::string, Incarnation>> known;
  for (const master::NodeStatus& node : leader->core().ListNodes(leader->Now())) {
    if (node.inventory_complete) known.emplace(node.address.name, node.address.incarnation);
  }
  return std::all_of(nodes_.begin(), nodes_.end(), [&](const auto& node) {
    return node->crashed() || known.contains({node->name(), node->incarnation()});
  });
}

void Cluster::HealEverything() {
  network_.set_options(NetworkOptions{});
  masters_.StopMetaFailures();
  if (masters_.etcd() != nullptr) masters_.etcd()->set_faults({});
  fabric_.faults() = DataFaults{};
  // Cuts heal by their own events, all of them within kQuiesce.
}

SimResult Cluster::Finish(absl::Time begin) {
  SimResult result;
  result.simulated = scheduler_.Now() - begin;
  CollectProbes();
  // Let every actor end, also after a violation.
  const std::string violation = violation_;
  end_ = scheduler_.Now();
  for (const auto& client : clients_) client->Crash();
  for (const auto& node : nodes_) node->Crash();
  scheduler_.Run(absl::InfiniteFuture(), [this] { return scheduler_.live_actors() == 0; });
  for (size_t i = 0; i < masters_.size(); ++i) masters_.at(i).Crash();
  result.violation = violation;
  result.events = scheduler_.events();
  result.counts = model_.counts();
  result.probes = probes_;
  result.fingerprint = Fingerprint(result);
  return result;
}

void Cluster::CollectProbes() {
  if (const SimMaster* const leader = masters_.leader()) AddProbes(*leader, probes_);
  for (size_t i = 0; i < masters_.size(); ++i) {
    probes_["terms that begin too low"] += masters_.at(i).low_terms();
  }
  for (const auto& node : nodes_) AddProbes(*node, probes_);
  for (const auto& client : clients_) AddProbes(*client, probes_);
  probes_["messages lost"] += network_.lost();
  if (masters_.etcd() != nullptr) probes_["etcd requests repeated"] += masters_.etcd()->repeated();
}

SimResult RunCluster(const SimOptions& options) { return Cluster(options).Run(); }

}  // namespace moonpool::sim
