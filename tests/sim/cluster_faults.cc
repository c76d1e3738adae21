// What goes wrong in a run, and when; and what its operator does.
#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/sim/cluster_run.h"
#include "tests/sim/probes.h"

namespace moonpool::sim {

void Cluster::Schedule(double per_second, void (Cluster::*fault)()) {
  if (per_second <= 0) return;
  const absl::Duration wait =
      absl::Seconds(-std::log(1.0 - random_.Uniform()) / per_second) + absl::Milliseconds(1);
  if (scheduler_.Now() + wait >= end_) return;
  scheduler_.After(wait, [this, per_second, fault] {
    (this->*fault)();
    Schedule(per_second, fault);
  });
}

void Cluster::ScheduleFaults() {
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
  Schedule(options_.drains, &Cluster::DrainANode);
  Schedule(options_.faults.node_pauses, &Cluster::PauseANode);
}

SimNode* Cluster::AnyLivingNode() {
  std::vector<SimNode*> alive;
  for (const auto& node : nodes_) {
    if (!node->crashed()) alive.push_back(node.get());
  }
  return alive.empty() ? nullptr : alive[random_.Below(alive.size())];
}

void Cluster::CrashANode() {
  SimNode* const node = AnyLivingNode();
  if (node == nullptr) return;
  node->Crash();
  ++probes_["node crashes"];
  const absl::Duration away = absl::Seconds(8 * random_.Uniform());
  scheduler_.After(away, [this, name = node->name()] { StartNode(name); });
}

void Cluster::KillANode() {
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

void Cluster::HaveANodeDepart() {
  SimNode* const node = AnyLivingNode();
  if (node == nullptr) return;
  node->Crash();
  ++probes_["node departures"];
  StartNode(absl::StrCat("node-", next_node_++));
  const absl::Duration until_told = absl::Seconds(1 + 8 * random_.Uniform());
  scheduler_.After(until_told, [this, name = node->name()] { operator_.Forget(name); });
}

void Cluster::DrainANode() {
  const SimNode* const node = AnyLivingNode();
  if (node == nullptr || operator_.drained() >= options_.drained_max()) return;
  const std::string name = node->name();
  operator_.Drain(name);
  ++probes_["drains"];
  if (random_.OneIn(2)) return;
  scheduler_.After(absl::Seconds(20) * random_.Uniform(), [this, name] {
    if (!operator_.has_asked(name)) return;  // it has left meanwhile
    operator_.CallOff(name);
    ++probes_["drains called off"];
  });
}

void Cluster::PauseANode() {
  SimNode* const node = AnyLivingNode();
  if (node == nullptr || node->paused()) return;
  node->Pause();
  ++probes_["node pauses"];
  // Until the master has given it up, or not.
  scheduler_.After(absl::Seconds(10) * random_.Uniform(), [node] { node->Continue(); });
}

SimClient* Cluster::AnyRunningClient() {
  std::vector<SimClient*> running;
  for (const auto& client : clients_) {
    if (!client->crashed() && !client->frozen()) running.push_back(client.get());
  }
  return running.empty() ? nullptr : running[random_.Below(running.size())];
}

void Cluster::CrashAClient() {
  SimClient* const client = AnyRunningClient();
  if (client == nullptr) return;
  client->Crash();
  ++probes_["client crashes"];
  StartClient();
}

void Cluster::FreezeAClient() {
  SimClient* const client = AnyRunningClient();
  if (client == nullptr) return;
  client->Freeze();
  ++probes_["client freezes"];
  // Past deadlines of calls, of grants, and of leases; or not.
  scheduler_.After(absl::Seconds(20) * random_.Uniform(), [client] { client->Thaw(); });
}

SimMaster& Cluster::AnyMaster() {
  SimMaster* const leader = masters_.leader();
  if (masters_.size() == 1) return masters_.at(0);
  if (leader != nullptr && random_.OneIn(2)) return *leader;
  return masters_.at(random_.Below(masters_.size()));
}

void Cluster::CrashTheMaster() {
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

void Cluster::PauseAMaster() {
  SimMaster& master = AnyMaster();
  if (!master.is_up() || master.is_paused()) return;
  if (master.leads()) ++probes_["leaders paused"];
  master.Pause();
  scheduler_.After(absl::Seconds(6) * random_.Uniform(), [&master] { master.Continue(); });
}

void Cluster::CutAMaster() {
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

void Cluster::StopEtcd() {
  if (!masters_.etcd()->is_up()) return;
  masters_.etcd()->Stop();
  ++probes_["etcd outages"];
  scheduler_.After(absl::Seconds(6) * random_.Uniform(), [this] { masters_.etcd()->Start(); });
}

void Cluster::CutSomething() {
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

void Cluster::RotABit() {
  SimNode* const node = AnyLivingNode();
  if (node == nullptr) return;
  const auto part = node->AnyPart(random_);
  if (!part.has_value()) return;
  const bool is_trusted = std::any_of(clients_.begin(), clients_.end(), [&](const auto& client) {
    return !client->crashed() && client->Trusts(part->key);
  });
  if (is_trusted) return;
  node->Rot(part->extent, random_);
  ++probes_["bits rotten"];
}

}  // namespace moonpool::sim
