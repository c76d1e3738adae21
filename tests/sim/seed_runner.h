// Many seeds, spread over processes: runs share nothing, so as many go at once as there are cores.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "tests/sim/cluster.h"

namespace moonpool::sim {

struct SeedSum {
  uint64_t runs = 0, failed = 0, events = 0;
  std::map<std::string, uint64_t> probes;

  void Add(const SimResult& result);
  void Add(const SeedSum& other);
};

struct SeedRange {
  uint64_t first = 1;
  uint64_t count = 1;
  int jobs = 1;
  bool keep_going = false;  // also after a violation
};

// Runs them, each in one of `jobs` child processes. Violations are printed as they are found, and
// how far it is on standard error. A run that ends its process (a CHECK, a signal) is a violation;
// the sum lacks what that child had counted.
SeedSum RunSeeds(const SeedRange& range);

// What is printed of a run that failed.
std::string DescribeFailure(const SimOptions& options, const SimResult& result);

}  // namespace moonpool::sim
