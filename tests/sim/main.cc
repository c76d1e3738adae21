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

namespace {

using moonpool::sim::RunCluster;
using moonpool::sim::SimOptions;
using moonpool::sim::SimResult;

constexpr int kWrongUsage = 2;

struct Sum {
  uint64_t runs = 0, failed = 0, events = 0;
  std::map<std::string, uint64_t> probes;
};

void Print(const std::map<std::string, uint64_t>& counts) {
  for (const auto& [name, count] : counts) absl::PrintF("  %-28s %d\n", name, count);
}

void Add(const SimResult& result, Sum& sum) {
  ++sum.runs;
  sum.events += result.events;
  sum.failed += result.violation.empty() ? 0 : 1;
  for (const auto& [name, count] : result.probes) sum.probes[name] += count;
  sum.probes["puts acknowledged"] += result.counts.acknowledged;
  sum.probes["gets"] += result.counts.gets;
  sum.probes["hits"] += result.counts.hits;
  sum.probes["holds"] += result.counts.held;
  sum.probes["views"] += result.counts.views;
  for (const auto& [name, count] : result.counts.misses) sum.probes["miss " + name] += count;
  for (const auto& [name, count] : result.counts.refusals) sum.probes["put " + name] += count;
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
      "  moonpool-sim --seed 42            one seed; prints what happened\n"
      "  moonpool-sim --seeds 1000000      seeds 1 to 1000000\n"
      "  moonpool-sim --first 500 --seeds 100 --keep-going\n\n"
      "Exit codes: 0 ok, 1 a rule was violated, 2 wrong usage\n");
  uint64_t seed = 0;
  uint64_t first = 1;
  uint64_t seeds = 200;
  bool keep_going = false;
  app.add_option("--seed", seed, "run this one");
  app.add_option("--first", first, "first seed")->capture_default_str();
  app.add_option("--seeds", seeds, "how many")->capture_default_str();
  app.add_flag("--keep-going", keep_going, "do not stop at the first violation");
  moonpool::sim::MutationCheck mutation;
  mutation.AddTo(app);
  if (const std::optional<int> code = Parse(app, argc, argv)) return *code == 0 ? 0 : kWrongUsage;
  if (const std::optional<int> code = mutation.Run()) return *code;
  if (seed != 0) {
    first = seed;
    seeds = 1;
  }

  Sum sum;
  for (uint64_t s = first; s < first + seeds; ++s) {
    const SimOptions options = SimOptions::FromSeed(s);
    const SimResult result = RunCluster(options);
    Add(result, sum);
    if (seeds == 1) {
      absl::PrintF("%s\nfingerprint %016x, %d events in %s\n", options.Describe(),
                   result.fingerprint, result.events, absl::FormatDuration(result.simulated));
    }
    if (!result.violation.empty()) {
      absl::PrintF("VIOLATION\n  %s\n  %s\n  again with: moonpool-sim --seed %d\n",
                   result.violation, options.Describe(), s);
      if (!keep_going) break;
    }
    if (seeds >= 1000 && sum.runs % 100 == 0) {
      absl::FPrintF(stderr, "%d of %d seeds, %d violations\n", sum.runs, seeds, sum.failed);
    }
  }
  absl::PrintF("%d seeds, %d events, %d violations\n", sum.runs, sum.events, sum.failed);
  Print(sum.probes);
  return sum.failed == 0 ? 0 : 1;
}
