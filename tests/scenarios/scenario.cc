#include "tests/scenarios/scenario.h"

#include <cstdio>

#include "absl/strings/numbers.h"
#include "common/error.h"

namespace moonpool::scenarios {

int Main(const std::string& name, int argc, char** argv, Scenario scenario) {
  ScenarioArgs args;
  bool is_valid = argc >= 2;
  if (is_valid) args.folder = argv[1];
  for (int i = 2; i < argc; ++i) {
    is_valid = is_valid && absl::SimpleAtoi(argv[i], &args.numbers.emplace_back());
  }
  if (!is_valid) {
    std::fprintf(stderr, "usage: %s FOLDER [NUMBER...], see the head of its source\n", argv[0]);
    return kCannotRun;
  }
  auto figures = scenario(args);
  if (!figures.ok()) {
    std::fprintf(stderr, "%s: %s\n", name.c_str(), Describe(figures.status()).c_str());
    return absl::IsFailedPrecondition(figures.status()) ? kCannotRun : kFails;
  }
  nlohmann::json line = {{"scenario", name}};
  line.update(*figures);
  std::printf("%s\n", line.dump().c_str());
  return line.value("ok", false) ? kHolds : kFails;
}

}  // namespace moonpool::scenarios
