// Measurements that are compared with one another run interleaved: every round measures every case
// once, for a short time, so that what the machine does meanwhile hits all of them alike.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "bench/measure/samples.h"
#include "nlohmann/json.hpp"

namespace moonpool::bench {

struct Reading {
  double rate = 0;    // in the unit of the case; 0 = not measured
  double p50_us = 0;  // of one call; 0 = not measured
  double cpu_s = 0;   // processor seconds per GB, all processes together; 0 = not measured
};

struct Case {
  std::string name;
  std::string rate_unit = "GB/s";
  std::function<absl::StatusOr<Reading>(absl::Duration time)> measure;
};

struct CaseResult {
  std::string name;
  std::string rate_unit;
  Samples rate;
  Samples p50_us;
  Samples cpu_s;
};

struct RoundsOptions {
  int rounds = 5;
  absl::Duration time_per_case = absl::Milliseconds(200);
  // Before each measurement: how many are done, and which comes. Not OK: that ends the rounds.
  std::function<absl::Status(size_t done, const std::string& name)> on_progress =
      [](size_t, const std::string&) { return absl::OkStatus(); };
};

// One sample per round and case, in order of the cases; the first error ends it.
absl::StatusOr<std::vector<CaseResult>> RunRounds(const std::vector<Case>& cases,
                                                  const RoundsOptions& options);

nlohmann::ordered_json ToJson(const std::vector<CaseResult>& results);

}  // namespace moonpool::bench
