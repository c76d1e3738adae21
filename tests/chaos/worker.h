// A client as a process of its own: a few threads that put, get, view, ask for and remove objects,
// and write down each call before it and after it (tests/history/record.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace moonpool::chaos {

struct WorkerOptions {
  std::vector<std::string> masters = {};
  std::string host_id = {};
  std::string records_path = {};
  uint64_t id = 0;  // another one in each life
  uint64_t seed = 0;
  size_t keys = 0;
  // Instead of all that: every key is read and asked for, once.
  bool verifies = false;
};

// Until SIGTERM. The exit code.
int RunWorker(const WorkerOptions& options);

}  // namespace moonpool::chaos
