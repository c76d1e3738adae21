// What the programs of scenarios have in common: NAME FOLDER [NUMBER...], figures as one line of
// JSON at the end, and what their exit codes say.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace moonpool::scenarios {

struct ScenarioArgs {
  std::string folder;
  std::vector<size_t> numbers = {};

  size_t Number(size_t index, size_t otherwise) const {
    return index < numbers.size() ? numbers[index] : otherwise;
  }
};

// Exit codes.
inline constexpr int kHolds = 0;
inline constexpr int kFails = 1;
inline constexpr int kCannotRun = 2;  // and standard error says what to do

// The figures; "ok" among them says whether all bars hold. FAILED_PRECONDITION: it cannot run here.
using Scenario = absl::StatusOr<nlohmann::json> (*)(const ScenarioArgs& args);

int Main(const std::string& name, int argc, char** argv, Scenario scenario);

}  // namespace moonpool::scenarios
