// How often the rare things happened in a run, as its parts have counted them.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "tests/sim/cluster.h"
#include "tests/sim/sim_client.h"
#include "tests/sim/sim_master.h"
#include "tests/sim/sim_node.h"

namespace moonpool::sim {

using Probes = std::map<std::string, uint64_t>;

void AddProbes(const SimMaster& leader, Probes& probes);
void AddProbes(const SimNode& node, Probes& probes);
void AddProbes(const SimClient& client, Probes& probes);

// Of all that is counted of a run.
uint64_t Fingerprint(const SimResult& result);

}  // namespace moonpool::sim
