// Prints the hit rates of the eviction policies on a trace, beside what is possible at all.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "bench/trace/generator.h"
#include "bench/trace/ideal.h"
#include "bench/trace/trace_reader.h"
#include "common/config/config_table.h"
#include "common/error.h"
#include "common/status_macros.h"
#include "common/version.h"
#include "master/core/eviction/registry.h"

namespace moonpool::trace {
namespace {

enum class Source { kFile, kChat, kAgent };

struct Arguments {
  std::string path;
  Source generate = Source::kFile;
  uint32_t seed = 1;
  uint32_t limit = std::numeric_limits<uint32_t>::max();
  std::vector<std::string> capacities = {"5000", "10000", "20000", "40000"};
  std::vector<std::string> policies;
};

void DescribeOptions(Arguments& arguments, ConfigTable& table) {
  std::string policy_help = "Which ones:";
  for (const master::PolicyInfo& info : master::EvictionPolicies()) {
    arguments.policies.emplace_back(info.name);
    absl::StrAppend(&policy_help, " ", info.name, " (", info.summary, ");");
  }
  policy_help.back() = '.';
  table.OptionalPositional("trace", &arguments.path, "A trace file, or a folder of sessions.");
  table.Choice("generate", &arguments.generate,
               {{"no", Source::kFile}, {"chat", Source::kChat}, {"agent", Source::kAgent}},
               "Make a trace up instead.");
  table.Int("seed", &arguments.seed, {0}, "Of the trace that is made up.");
  table.Int("limit", &arguments.limit, {1}, "Use only the first requests.");
  table.TextList("capacity", &arguments.capacities, "Columns: capacities in blocks.");
  table.TextList("policy", &arguments.policies, policy_help);
}

absl::StatusOr<std::vector<uint32_t>> ParseCapacities(const std::vector<std::string>& texts) {
  std::vector<uint32_t> capacities;
  for (const std::string& text : texts) {
    uint32_t& capacity = capacities.emplace_back();
    if (!absl::SimpleAtoi(text, &capacity) || capacity == 0 || capacity > uint32_t{1} << 31) {
      return absl::InvalidArgumentError(
          absl::StrCat("--capacity: \"", text, "\" is not a number of blocks"));
    }
  }
  return capacities;
}

absl::StatusOr<Trace> Load(const Arguments& arguments) {
  if (arguments.path.empty() == (arguments.generate == Source::kFile)) {
    return absl::InvalidArgumentError("name a trace or --generate one (--help has examples)");
  }
  if (!arguments.path.empty()) {
    return ReadTrace(arguments.path, {.limit_requests = arguments.limit});
  }
  GenerateOptions options = {.seed = arguments.seed};
  options.requests = std::min(arguments.limit, options.requests);
  return Generate(arguments.generate == Source::kAgent ? Workload::kAgent : Workload::kChat,
                  options);
}

template <typename HitsAt>
void PrintRow(const std::vector<uint32_t>& capacities, absl::string_view name, HitsAt hits_at) {
  absl::PrintF("%-10s", name);
  for (const uint32_t capacity : capacities) {
    const HitCount count = hits_at(capacity);
    absl::PrintF(" %9.4f%s", count.rate(), count.refused > 0 ? "!" : " ");
    std::fflush(stdout);
  }
  absl::PrintF("\n");
}

absl::Status PrintTable(const Arguments& arguments) {
  ASSIGN_OR_RETURN(const std::vector<uint32_t> capacities, ParseCapacities(arguments.capacities));
  for (const std::string& name : arguments.policies) {
    master::SlotTable slots;
    RETURN_IF_ERROR(master::MakeEvictionPolicy(name, slots).status());
  }
  ASSIGN_OR_RETURN(const Trace trace, Load(arguments));
  const HitCount unbounded = UnboundedHits(trace);
  absl::PrintF("%s: %d requests, %d block references, unbounded %.4f\n%-10s", trace.name,
               trace.requests.size(), unbounded.references, unbounded.rate(), "blocks");
  for (const uint32_t capacity : capacities) absl::PrintF(" %9d ", capacity);
  absl::PrintF("\n");
  for (const std::string& name : arguments.policies) {
    PrintRow(capacities, name, [&](uint32_t capacity) {
      master::SlotTable slots;
      return SimulatePolicy(trace, capacity, **master::MakeEvictionPolicy(name, slots));
    });
  }
  PrintRow(capacities, "optimal",
           [&](uint32_t capacity) { return OfflineOptimalHits(trace, capacity); });
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  Arguments arguments;
  ConfigTable table(
      {.program = "policy_table",
       .summary = "Prints hit rates of the eviction policies on a trace, and the best possible one "
                  "(evicting with foresight). Every request hits the prefix of its chain that is "
                  "present and puts the rest; leaves go before parents.",
       .version = kReleaseVersion,
       .examples = {{"policy_table conversation_trace.jsonl", "all policies"},
                    {"policy_table sessions.tar.xz --capacity 60000,200000 --limit 10000",
                     "the first requests of many sessions"},
                    {"policy_table --generate chat --seed 7 --policy cohort,lru",
                     "without a trace at hand"}},
       .reads_file = false});
  DescribeOptions(arguments, table);
  const auto outcome = table.Parse(std::vector<std::string>(argv + 1, argv + argc));
  if (outcome.ok() && outcome->should_exit) {
    absl::PrintF("%s", outcome->output);
    return 0;
  }
  const absl::Status status = outcome.ok() ? PrintTable(arguments) : outcome.status();
  if (status.ok()) return 0;
  absl::FPrintF(stderr, "policy_table: %s\n", Describe(status));
  return status.code() == absl::StatusCode::kInvalidArgument ? 2 : 1;
}

}  // namespace
}  // namespace moonpool::trace

int main(int argc, char** argv) { return moonpool::trace::Main(argc, argv); }
