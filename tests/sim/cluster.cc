#include "tests/sim/cluster.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/error.h"
#include "common/log.h"
#include "common/version.h"
#include "tests/sim/probes.h"
#include "tests/sim/sim_client.h"
#include "tests/sim/sim_masters.h"
#include "tests/sim/sim_node.h"

namespace moonpool::sim {
namespace {

// Long enough for every deadline, straggler and time-out of the run to pass.
constexpr absl::Duration kQuiesce = absl::Seconds(60);
constexpr absl::Duration kCheckEvery = absl::Milliseconds(100);

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

class Cluster {
 public:
  explicit Cluster(const SimOptions& options)
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
                  .clock_offset = absl::ZeroDuration(),
                  .on_begin = [this] { ReignBegins(); }},
                 Random(random_.Next())) {
    fabric_.faults() = options.faults.data;
  }

  SimResult Run() {
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

 private:
  void RunUntil(absl::Time limit) {
    scheduler_.Run(limit, [this] { return !violation_.empty(); });
  }

  void Violate(absl::string_view what) {
    if (violation_.empty()) {
      violation_ = absl::StrCat(what, " (at ",
                                absl::FormatDuration(scheduler_.Now() - absl::UnixEpoch()), ")");
    }
  }

  void StartNode(const std::string& name) { StartNode(name, SimPool::New(options_.node_bytes)); }
  void StartNode(const std::string& name, SimPool pool) {
    nodes_.push_back(std::make_unique<SimNode>(fabric_, masters_, name, std::move(pool),
                                               Random(random_.Next())));
    nodes_.back()->Start();
  }

  SimClient* NewClient() {
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
    clients_.push_back(std::make_unique<SimClient>(world, absl::StrCat("client-", id), id,
                                                   Random(random_.Next())));
    return clients_.back().get();
  }

  void StartClient() {
    SimClient* const client = NewClient();
    scheduler_.Spawn(client->host(), [this, client] { client->Work(end_); });
  }

  // Poisson processes, drawn as waiting times.
  void Schedule(double per_second, void (Cluster::*fault)()) {
    if (per_second <= 0) return;
    const absl::Duration wait =
        absl::Seconds(-std::log(1.0 - random_.Uniform()) / per_second) + absl::Milliseconds(1);
    if (scheduler_.Now() + wait >= end_) return;
    scheduler_.After(wait, [this, per_second, fault] {
      (this->*fault)();
      Schedule(per_second, fault);
    });
  }

  void ScheduleFaults() {
    Schedule(options_.faults.node_crashes, &Cluster::CrashANode);
    Schedule(options_.faults.node_kills, &Cluster::KillANode);
    Schedule(options_.faults.node_departures, &Cluster::HaveANodeDepart);
    Schedule(options_.faults.client_freezes, &Cluster::FreezeAClient);
    Schedule(options_.faults.master_crashes, &Cluster::CrashTheMaster);
    Schedule(options_.faults.client_crashes, &Cluster::CrashAClient);
    Schedule(options_.faults.cuts, &Cluster::CutSomething);
    Schedule(options_.faults.rotten_bits, &Cluster::RotABit);
    Schedule(options_.faults.master_pauses, &Cluster::PauseAMaster);
    Schedule(options_.faults.master_cuts, &Cluster::CutAMaster);
    Schedule(options_.faults.etcd_outages, &Cluster::StopEtcd);
  }

  SimNode* AnyLivingNode() {
    std::vector<SimNode*> alive;
    for (const auto& node : nodes_) {
      if (!node->crashed()) alive.push_back(node.get());
    }
    return alive.empty() ? nullptr : alive[random_.Below(alive.size())];
  }

  void CrashANode() {
    SimNode* const node = AnyLivingNode();
    if (node == nullptr) return;
    node->Crash();
    ++probes_["node crashes"];
    const absl::Duration away = absl::Seconds(8 * random_.Uniform());
    scheduler_.After(away, [this, name = node->name()] { StartNode(name); });
  }

  // Its next process takes the pool over: at once, or when the master has given the node up.
  void KillANode() {
    SimNode* const node = AnyLivingNode();
    if (node == nullptr) return;
    node->Crash();
    ++probes_["node kills"];
    model_.NodeKilled(scheduler_.Now());
    const std::string name = node->name();
    killed_.insert(name);
    const absl::Duration away =
        absl::Seconds(random_.OneIn(2) ? random_.Uniform() : 15 * random_.Uniform());
    const auto pool = std::make_shared<SimPool>(node->LeftPool());
    const double torn = options_.faults.torn_writes;
    if (torn > 0 && random_.Uniform() < torn) pool->Tear(random_);
    scheduler_.After(away, [this, name, pool] {
      killed_.erase(name);
      StartNode(name, std::move(*pool));
      probes_["parts kept"] += nodes_.back()->index().stats(0).sealed_parts;
    });
  }

  // Its machine is taken away. Another one joins, and the operator says that the first is gone.
  void HaveANodeDepart() {
    SimNode* const node = AnyLivingNode();
    if (node == nullptr) return;
    node->Crash();
    ++probes_["node departures"];
    StartNode(absl::StrCat("node-", next_node_++));
    const absl::Duration until_told = absl::Seconds(1 + 8 * random_.Uniform());
    scheduler_.After(until_told, [this, name = node->name()] { Forget(name); });
  }

  void Forget(const std::string& name) {
    // As the operator would: again while there is no master.
    SimMaster* const leader = masters_.leader();
    if (leader == nullptr) {
      scheduler_.After(absl::Seconds(1), [this, name] { Forget(name); });
      return;
    }
    v1::ForgetNodeRequest request;
    request.mutable_version()->set_major(kWireMajor);
    request.set_name(name);
    const auto is_answered = std::make_shared<bool>(false);
    const std::function<void(absl::Status, v1::ForgetNodeResponse)> done =
        [this, name, is_answered](const absl::Status& status, const v1::ForgetNodeResponse&) {
          // Until the answer has come a crash may undo it.
          *is_answered = status.ok() || absl::IsNotFound(status);
          const bool is_excused = *is_answered || ReasonOf(status) == ErrorReason::kNotSaved ||
                                  ReasonOf(status) == ErrorReason::kNotLeader;
          if (!is_excused) Violate(absl::StrCat("forget of ", name, ": ", status.message()));
        };
    leader->On(leader->lives(), [leader, request, done] {
      leader->Take<v1::ForgetNodeRequest, v1::ForgetNodeResponse>(
          request,
          [](master::Handlers& handlers, const v1::ForgetNodeRequest& r, absl::Time now,
             auto answer) { handlers.ForgetNode(r, now, std::move(answer)); },
          done);
    });
    scheduler_.After(absl::Seconds(5), [this, name, is_answered] {
      if (!*is_answered) Forget(name);
    });
  }

  SimClient* AnyRunningClient() {
    std::vector<SimClient*> running;
    for (const auto& client : clients_) {
      if (!client->crashed() && !client->frozen()) running.push_back(client.get());
    }
    return running.empty() ? nullptr : running[random_.Below(running.size())];
  }

  void CrashAClient() {
    SimClient* const client = AnyRunningClient();
    if (client == nullptr) return;
    client->Crash();
    ++probes_["client crashes"];
    StartClient();
  }

  void FreezeAClient() {
    SimClient* const client = AnyRunningClient();
    if (client == nullptr) return;
    client->Freeze();
    ++probes_["client freezes"];
    // Past deadlines of calls, of grants, and of leases; or not.
    scheduler_.After(absl::Seconds(20) * random_.Uniform(), [client] { client->Thaw(); });
  }

  // The leader, half of the time.
  SimMaster& AnyMaster() {
    SimMaster* const leader = masters_.leader();
    if (masters_.size() == 1) return masters_.at(0);
    if (leader != nullptr && random_.OneIn(2)) return *leader;
    return masters_.at(random_.Below(masters_.size()));
  }

  void CrashTheMaster() {
    SimMaster& master = AnyMaster();
    if (!master.is_up()) return;
    if (master.leads()) {
      AddProbes(master, probes_);
      MasterIsUnknowing();
    }
    master.Crash();
    ++probes_["master crashes"];
    scheduler_.After(absl::Seconds(3) * random_.Uniform(), [&master] { master.Start(); });
  }

  void PauseAMaster() {
    SimMaster& master = AnyMaster();
    if (!master.is_up() || master.is_paused()) return;
    if (master.leads()) ++probes_["leaders paused"];
    master.Pause();
    scheduler_.After(absl::Seconds(6) * random_.Uniform(), [&master] { master.Continue(); });
  }

  void CutAMaster() {
    const SimMaster& master = AnyMaster();
    std::vector<std::string> peers;
    const uint64_t whom = random_.Below(4);
    if (whom == 0 || whom == 3) peers.push_back(SimEtcd::kHost);
    for (const auto& node : nodes_) {
      if ((whom == 1 || whom == 3) && !node->crashed()) peers.push_back(node->name());
    }
    for (const auto& client : clients_) {
      if ((whom == 2 || whom == 3) && !client->crashed()) peers.push_back(client->host());
    }
    if (master.leads()) ++probes_["leaders cut off"];
    const uint64_t way = random_.Below(4);
    for (const std::string& peer : peers) {
      if (way != 0) network_.Cut(master.host(), peer);
      if (way != 1) network_.Cut(peer, master.host());
    }
    scheduler_.After(absl::Seconds(8) * random_.Uniform(), [this, peers, host = master.host()] {
      for (const std::string& peer : peers) {
        network_.Heal(host, peer);
        network_.Heal(peer, host);
      }
    });
  }

  void StopEtcd() {
    if (!masters_.etcd()->is_up()) return;
    masters_.etcd()->Stop();
    ++probes_["etcd outages"];
    scheduler_.After(absl::Seconds(6) * random_.Uniform(), [this] { masters_.etcd()->Start(); });
  }

  // Of several masters; what the one before knew, this one has to learn.
  void ReignBegins() {
    ++probes_["reigns"];
    if (std::exchange(has_led_, true)) {
      ++probes_["changes of leader"];
      if (!options_.may_change_master()) Violate("another reign begins, and nothing had failed");
    }
    MasterIsUnknowing();
  }

  void MasterIsUnknowing() {
    model_.MasterCrashed(scheduler_.Now());
    is_recovering_ = true;
  }

  bool MasterKnowsAll() {
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

  void CutSomething() {
    std::vector<std::string> hosts;
    for (size_t i = 0; i < masters_.size(); ++i) hosts.push_back(masters_.at(i).host());
    if (masters_.etcd() != nullptr) hosts.push_back(SimEtcd::kHost);
    for (const auto& node : nodes_) {
      if (!node->crashed()) hosts.push_back(node->name());
    }
    for (const auto& client : clients_) {
      if (!client->crashed()) hosts.push_back(client->host());
    }
    const std::string a = hosts[random_.Below(hosts.size())];
    const std::string b = hosts[random_.Below(hosts.size())];
    if (a == b) return;
    const bool both = random_.OneIn(2);
    const FaultModel& faults = options_.faults;
    const absl::Duration length =
        faults.cut_min + (faults.cut_max - faults.cut_min) * random_.Uniform();
    network_.Cut(a, b);
    if (both) network_.Cut(b, a);
    ++probes_["cuts"];
    scheduler_.After(length, [this, a, b] {
      network_.Heal(a, b);
      network_.Heal(b, a);
    });
  }

  // Not of what is viewed: nobody promises that a view has the bytes looked at.
  void RotABit() {
    SimNode* const node = AnyLivingNode();
    if (node == nullptr) return;
    const auto part = node->AnyPart(random_);
    if (!part.has_value()) return;
    const bool is_viewed = std::any_of(clients_.begin(), clients_.end(), [&](const auto& client) {
      return client->Views(part->key);
    });
    if (is_viewed) return;
    node->Rot(part->extent, random_);
    ++probes_["bits rotten"];
  }

  void HealEverything() {
    network_.set_options(NetworkOptions{});
    masters_.StopMetaFailures();
    fabric_.faults() = DataFaults{};
    // Cuts heal by their own events, all of them within kQuiesce.
  }

  void ScheduleCheck() {
    scheduler_.After(kCheckEvery, [this] {
      CheckMasters();
      if (is_recovering_ && MasterKnowsAll()) {
        is_recovering_ = false;
        model_.MasterRecovered(scheduler_.Now());
      }
      if (MasterKnowsAll()) model_.NodesAreBack(scheduler_.Now());
      if (scheduler_.Now() < end_ + kQuiesce) ScheduleCheck();
    });
  }

  void CheckMasters() {
    size_t leaders = 0;
    for (size_t i = 0; i < masters_.size(); ++i) {
      if (!masters_.at(i).leads()) continue;
      ++leaders;
      const absl::Status status = masters_.at(i).core().CheckInvariants();
      if (!status.ok()) Violate(absl::StrCat("master: ", status.message()));
    }
    if (leaders > 1) Violate("two masters answer as the leader");
  }

  // With everything healed and every deadline past, nothing may be left open, and what the master
  // says is stored must be read by a client that knows nothing yet.
  void FinalChecks() {
    if (!violation_.empty()) return;
    SimMaster* const leader = masters_.leader();
    if (leader == nullptr) return Violate("nobody leads");
    if (is_recovering_) return Violate("the master never had all inventories");
    const master::StatusResult status = leader->core().GetStatus(leader->Now());
    if (status.open_grants != 0) Violate(absl::StrCat(status.open_grants, " grants never ended"));
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
    ReadBack();
  }

  void ReadBack() {
    SimClient* const client = NewClient();
    scheduler_.Spawn(client->host(), [client] { client->ReadEverything(); });
    RunUntil(scheduler_.Now() + kQuiesce);
  }

  SimResult Finish(absl::Time begin) {
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

  void CollectProbes() {
    if (const SimMaster* const leader = masters_.leader()) AddProbes(*leader, probes_);
    for (const auto& node : nodes_) AddProbes(*node, probes_);
    for (const auto& client : clients_) AddProbes(*client, probes_);
    probes_["messages lost"] += network_.lost();
  }

  const SimOptions options_;
  Random random_;
  std::string violation_;
  std::map<std::string, uint64_t> probes_;
  absl::Time end_ = absl::InfiniteFuture();
  Scheduler scheduler_;
  Network network_;
  SimFabric fabric_;
  Model model_;
  SimMasters masters_;
  std::vector<std::unique_ptr<SimNode>> nodes_;
  std::vector<std::unique_ptr<SimClient>> clients_;
  uint64_t last_client_ = 0;
  int next_node_ = 0;
  std::set<std::string> killed_;  // and not started again yet
  bool is_recovering_ = false;
  bool has_led_ = false;
};

}  // namespace

SimResult RunCluster(const SimOptions& options) { return Cluster(options).Run(); }

}  // namespace moonpool::sim
