// One simulated run is one seed: everything below is drawn from it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "transport/sim/network.h"
#include "transport/sim/sim_transport.h"

namespace moonpool::sim {

// What happens to messages between masters and etcd, beyond what the network does to all.
struct EtcdFaults {
  double repeat = 0;  // a request is carried out twice, and its caller hears of one of them
  double late = 0;    // a request or an answer takes so long that others overtake it

  bool any() const { return repeat > 0 || late > 0; }
};

// The fault model: what the cluster has to survive. Rates are events per simulated second.
struct FaultModel {
  NetworkOptions network;      // delays, stragglers, losses
  DataFaults data;             // repeated writes, flipped bits
  double node_crashes = 0;     // its bytes are gone; it comes back empty
  double node_kills = 0;       // only its process ends; the next one has the pool as it was
  double torn_writes = 0;      // share of the kills after which journal and pool are not whole
  double node_departures = 0;  // for good: an operator has the master forget it, another one comes
  double client_crashes = 0;   // in the middle of whatever it does
  double client_freezes = 0;   // paused in the middle of it, and resumed past every deadline
  double master_crashes = 0;   // the next one knows what is in the meta store, and has a later term
  double rotten_bits = 0;      // one bit of a part in a node's memory turns over
  double node_pauses = 0;      // what happens to it happens later; its clock goes on
  double clock_jumps = 0;      // of the wall clock, by seconds or by days, forwards or backwards
  // Where there are several masters; half of these hit the leader.
  double master_pauses = 0;  // what happens to it happens later; its clock goes on
  double master_cuts = 0;    // from etcd, all nodes, all clients, or all; one way or both
  double etcd_outages = 0;   // it is away for a while, and has lost nothing
  EtcdFaults etcd;           // messages that are doubled, late, and so in another order
  double meta_failures = 0;  // share of the writes to the meta store that fail; others are slow
  double cuts = 0;           // between two of {master, etcd, node, client}, one way or both
  absl::Duration cut_min = absl::Milliseconds(200);
  absl::Duration cut_max = absl::Seconds(12);

  bool disturbs_masters() const {
    return master_pauses > 0 || master_cuts > 0 || etcd_outages > 0 || etcd.any();
  }
  // Also for a while, or for one master only.
  bool loses_nodes() const {
    return node_crashes > 0 || node_departures > 0 || node_pauses > 0 || cuts > 0 ||
           disturbs_masters();
  }
  bool loses_parts() const { return loses_nodes() || rotten_bits > 0 || torn_writes > 0; }
  bool disturbs_network() const {
    return cuts > 0 || master_cuts > 0 || network.loss > 0 || network.straggle > 0 ||
           data.bit_flip > 0 || data.duplicate_write > 0;
  }
};

// What a node is called, and where it stands.
struct NodeLabels {
  std::string name;
  std::string host;
  std::string rack;
};

struct SimOptions {
  uint64_t seed = 1;
  int masters = 1;  // several elect a leader in etcd
  int nodes = 3;
  // Over which the nodes are spread in turn, those that come later, too.
  int hosts = 0;  // 0: each node has its own
  int racks = 0;  // 0: they are not named
  int clients = 4;
  uint64_t node_bytes = 256 * 1024;
  int chains = 12;
  int chain_length = 8;
  uint64_t object_bytes_max = 8 * 1024;
  uint64_t stripe_bytes = 16 * 1024;
  uint64_t min_part_bytes = 1024;
  uint32_t replicas = 1;
  uint32_t obituaries = 1u << 18;  // that the master remembers
  std::string eviction_policy;
  absl::Duration duration = absl::Seconds(30);
  double drains = 0;        // per second; half of them are called off after a while
  bool keeps_state = true;  // there is a meta store, which outlives the master; several have etcd
  FaultModel faults;

  // Another reign than the first may be seen.
  bool may_change_master() const {
    return faults.master_crashes > 0 ||
           (masters > 1 && (faults.disturbs_masters() || faults.disturbs_network()));
  }
  // As many nodes may be drained at a time; a lone one never.
  int drained_max() const { return drains > 0 ? nodes / 2 : 0; }
  // Everything at its largest does not surely fit.
  bool may_evict() const;
  // Every object is placed by one master that has all nodes for as long as it lives, so its
  // replicas are as many as were asked for, by what the master remembers...
  bool keeps_wishes() const {
    return !faults.loses_parts() && !faults.disturbs_network() && faults.node_kills == 0 &&
           faults.meta_failures == 0 && !may_change_master();
  }
  // ... and stand in the best places.
  bool spreads_replicas() const { return keeps_wishes() && drains == 0 && !may_evict(); }
  NodeLabels LabelsOf(const std::string& node) const;
  // Each client runs on a host where there is a node, too.
  std::string HostOfClient(uint64_t id) const;
  // The ids of the clients on a host that only this node is on, modulo the number of nodes.
  std::optional<uint64_t> ClientsOnlyOn(const std::string& node) const;
  // The same seed, the same run. Those from kCrowdedSeeds on are of a world of few keys in little
  // memory, where processes die all the time and masters remember next to nothing: what rarely
  // meets elsewhere meets there.
  static constexpr uint64_t kCrowdedSeeds = uint64_t{1} << 32;
  static SimOptions FromSeed(uint64_t seed);
  // One line, for the log of a failing seed.
  std::string Describe() const;
};

}  // namespace moonpool::sim
