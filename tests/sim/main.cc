// The simulator on demand: one seed with its story, or many with a summary.

#include <cstdio>
#include <map>
#include <optional>
#include <string>

#include <CLI/CLI.hpp>

#include "absl/strings/str_format.h"
#include "tests/sim/cluster.h"
#include "tests/sim/mutation.h"
#include "tests/sim/options.h"
#include "tests/sim/seed_runner.h"

namespace {

using moonpool::sim::RunCluster;
using moonpool::sim::RunSeeds;
using moonpool::sim::SeedRange;
using moonpool::sim::SeedSum;
using moonpool::sim::SimOptions;
using moonpool::sim::SimResult;

constexpr int kWrongUsage = 2;

void Print(const std::map<std::string, uint64_t>& counts) {
  for (const auto& [name, count] : counts) absl::PrintF("  %-28s %d\n", name, count);
}

int RunOne(uint64_t seed) {
  const SimOptions options = SimOptions::FromSeed(seed);
  const SimResult result = RunCluster(options);
  SeedSum sum;
  sum.Add(result);
  absl::PrintF("%s\nfingerprint %016x, %d events in %s\n", options.Describe(), result.fingerprint,
               result.events, absl::FormatDuration(result.simulated));
  if (sum.failed > 0) absl::PrintF("%s", DescribeFailure(options, result));
  Print(sum.probes);
  return sum.failed == 0 ? 0 : 1;
}

// The exit code, where the command line ends the program: 0 after --help.
std::optional<int> Parse(CLI::App& app, int argc, char** argv) {
  CLI11_PARSE(app, argc, argv);
  return std::nullopt;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Runs the whole cluster in one process on virtual time, with faults from one seed.\n\n"
      "Examples:\n"
      "  moonpool-sim --seed 42                     one seed; prints what happened\n"
      "  moonpool-sim --seeds 1000000 --jobs 8      seeds 1 to 1000000\n"
      "  moonpool-sim --first 500 --seeds 100 --keep-going\n\n"
      "Exit codes: 0 ok, 1 a rule was violated, 2 wrong usage\n");
  uint64_t seed = 0;
  SeedRange range{.count = 200};
  app.add_option("--seed", seed, "run this one");
  app.add_option("--first", range.first, "first seed")->capture_default_str();
  app.add_option("--seeds", range.count, "how many")->capture_default_str();
  app.add_option("--jobs", range.jobs, "processes that run them")
      ->capture_default_str()
      ->check(CLI::Range(1, 256));
  app.add_flag("--keep-going", range.keep_going, "do not stop at the first violation");
  moonpool::sim::MutationCheck mutation;
  mutation.AddTo(app);
  if (const std::optional<int> code = Parse(app, argc, argv)) return *code == 0 ? 0 : kWrongUsage;
  if (const std::optional<int> code = mutation.Run()) return *code;
  if (seed != 0) return RunOne(seed);

  const SeedSum sum = RunSeeds(range);
  absl::PrintF("%d seeds, %d events, %d violations\n", sum.runs, sum.events, sum.failed);
  Print(sum.probes);
  return sum.failed == 0 ? 0 : 1;
}
