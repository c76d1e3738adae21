// The whole cluster in one process, from one seed: real core, handlers, pool, link and client
// logic; simulated time, network and machines.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "tests/sim/model.h"
#include "tests/sim/options.h"

namespace moonpool::sim {

struct SimResult {
  std::string violation;  // empty: every invariant held at every step
  uint64_t events = 0;
  uint64_t fingerprint = 0;  // of everything that happened: equal for equal seeds
  absl::Duration simulated = absl::ZeroDuration();
  Model::Counts counts;
  // How often the rare things happened, by name, so that a run that tests nothing is seen.
  std::map<std::string, uint64_t> probes;
};

SimResult RunCluster(const SimOptions& options);

}  // namespace moonpool::sim
