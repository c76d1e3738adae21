// One simulated run is one seed: everything below is drawn from it.
#pragma once

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "transport/sim/network.h"
#include "transport/sim/sim_transport.h"

namespace moonpool::sim {

// The fault model: what the cluster has to survive. Rates are events per simulated second.
struct FaultModel {
  NetworkOptions network;      // delays, stragglers, losses
  DataFaults data;             // repeated writes, flipped bits
  double node_crashes = 0;     // its bytes are gone; it comes back empty
  double node_kills = 0;       // only its process ends; the next one has the pool as it was
  double node_departures = 0;  // for good: an operator has the master forget it, another one comes
  double client_crashes = 0;   // in the middle of whatever it does
  double client_freezes = 0;   // paused in the middle of it, and resumed past every deadline
  double master_crashes = 0;   // the next one knows what is in the meta store, and has a later term
  double rotten_bits = 0;      // one bit of a part in a node's memory turns over
  double meta_failures = 0;    // share of the writes to the meta store that fail; others are slow
  double cuts = 0;             // between two of {master, node, client}, one way or both
  absl::Duration cut_min = absl::Milliseconds(200);
  absl::Duration cut_max = absl::Seconds(12);

  bool loses_nodes() const { return node_crashes > 0 || node_departures > 0 || cuts > 0; }
  bool loses_parts() const { return loses_nodes() || rotten_bits > 0; }
  bool disturbs_network() const {
    return cuts > 0 || network.loss > 0 || network.straggle > 0 || data.bit_flip > 0 ||
           data.duplicate_write > 0;
  }
};

struct SimOptions {
  uint64_t seed = 1;
  int nodes = 3;
  int clients = 4;
  uint64_t node_bytes = 256 * 1024;
  int chains = 12;
  int chain_length = 8;
  uint64_t object_bytes_max = 8 * 1024;
  uint64_t stripe_bytes = 16 * 1024;
  uint64_t min_part_bytes = 1024;
  uint32_t replicas = 1;
  std::string eviction_policy;
  absl::Duration duration = absl::Seconds(30);
  bool keeps_state = true;  // the master has a meta store, which outlives it
  FaultModel faults;

  // Everything at its largest does not surely fit.
  bool may_evict() const;
  // The same seed, the same run.
  static SimOptions FromSeed(uint64_t seed);
  // One line, for the log of a failing seed.
  std::string Describe() const;
};

}  // namespace moonpool::sim
