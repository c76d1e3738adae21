// moonpool replay: a workload against a running pool, beside what was possible.
#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "bench/replay/report.h"
#include "bench/trace/generator.h"
#include "bench/trace/trace_reader.h"
#include "cli/commands.h"
#include "cli/output/fields.h"
#include "cli/output/progress.h"
#include "cli/output/wrap.h"
#include "cli/values.h"
#include "common/clock.h"
#include "common/config/units.h"
#include "common/error.h"
#include "common/random.h"
#include "common/status_macros.h"

namespace moonpool::cli {
namespace {

constexpr uint64_t kRequestsMax = 100'000'000;

// A master that was restarted meanwhile counts from its own start.
uint64_t EvictedBetween(const v1::GetStatusResponse& before, const v1::GetStatusResponse& after) {
  const uint64_t base = before.term() == after.term() ? before.totals().evicted() : 0;
  return after.totals().evicted() - std::min(base, after.totals().evicted());
}

struct Arguments {
  std::string trace_file;
  std::string generate;
  trace::GenerateOptions generator;
  uint64_t limit = std::numeric_limits<uint64_t>::max();
  uint64_t block_bytes = 0;
  size_t clients = 1;
  std::string speed = "max";
  double prefill_tokens_per_s = 20'000;
  std::string key_prefix;
  std::string path = "auto";
  std::string json_file;
};

absl::StatusOr<trace::Trace> LoadTrace(const Arguments& arguments) {
  if (!arguments.trace_file.empty()) {
    auto trace = trace::ReadTrace(arguments.trace_file, {.limit_requests = arguments.limit});
    if (trace.ok()) return trace;
    return WithoutNotFound(trace.status(), "name a trace with --trace, or --generate one");
  }
  trace::Trace trace = trace::Generate(
      arguments.generate == "agent" ? trace::Workload::kAgent : trace::Workload::kChat,
      arguments.generator);
  if (trace.requests.size() > arguments.limit) trace.requests.resize(arguments.limit);
  return trace;
}

replay::PlayOptions MakePlayOptions(const Session& session, const Arguments& arguments,
                                    const trace::Trace& trace, uint64_t capacity_bytes) {
  replay::PlayOptions options;
  options.clients = arguments.clients;
  options.engine.client = {.masters = session.masters,
                           .name_space = session.name_space,
                           .fingerprint = session.fingerprint,
                           .timeout = session.timeout};
  if (arguments.path == "tcp") options.engine.client.path = Path::kTcp;
  if (arguments.path == "shm") options.engine.client.path = Path::kShm;
  options.engine.block_bytes = arguments.block_bytes > 0
                                   ? arguments.block_bytes
                                   : replay::DerivedBlockBytes(trace, capacity_bytes);
  // Fresh keys, unless told: what an earlier replay left behind would count as hits.
  options.engine.key_prefix = arguments.key_prefix.empty()
                                  ? absl::StrFormat("replay-%08x/", EntropySeed() >> 32)
                                  : arguments.key_prefix;
  if (absl::SimpleAtod(arguments.speed, &options.speed) && arguments.prefill_tokens_per_s > 0) {
    options.engine.prefill_per_block =
        absl::Seconds(trace.block_tokens / arguments.prefill_tokens_per_s / options.speed);
  }
  return options;
}

absl::StatusOr<replay::Report> Replay(const Session& session, const Arguments& arguments) {
  MasterLink link = session.Link();
  ASSIGN_OR_RETURN(const v1::GetStatusResponse before, session.PoolWithNodes());
  ASSIGN_OR_RETURN(const trace::Trace trace, LoadTrace(arguments));
  replay::PlayOptions options = MakePlayOptions(session, arguments, trace, before.capacity_bytes());
  const SteadyClock clock;
  Progress progress("replay", trace.requests.size(), clock);
  options.on_progress = [&progress](const replay::Tally& tally) {
    progress.Update(tally.requests,
                    absl::StrFormat("hit rate %.1f%%",
                                    100.0 * static_cast<double>(tally.hit_blocks) /
                                        static_cast<double>(std::max<uint64_t>(tally.blocks, 1))));
  };
  ASSIGN_OR_RETURN(replay::PlayResult play, replay::Play(trace, options));
  progress.Finish();
  ASSIGN_OR_RETURN(const v1::GetStatusResponse after, link.GetStatus());
  return replay::MakeReport(trace, options,
                            {.capacity_bytes = before.capacity_bytes(),
                             .evicted = EvictedBetween(before, after),
                             .policy = before.eviction_policy()},
                            std::move(play));
}

void PrintText(const replay::Report& report) {
  const replay::Tally& tally = report.play.tally;
  Fields fields;
  fields.Add(
      "played",
      absl::StrFormat("%s: %d requests, %d blocks of %s, %d client%s, %.1fs", report.trace_name,
                      tally.requests, tally.blocks, HumanBytes(report.block_bytes), report.clients,
                      report.clients == 1 ? "" : "s", absl::ToDoubleSeconds(report.play.elapsed)));
  fields.Add("hit rate",
             absl::StrFormat("%.2f%% of the blocks (%d) with %s", 100 * report.hit_rate(),
                             tally.hit_blocks, report.pool.policy));
  fields.Add("", absl::StrFormat("%.2f%% possible in %d blocks, %.2f%% without a bound",
                                 100 * report.ideal_optimal, report.capacity_blocks,
                                 100 * report.ideal_unbounded));
  const auto calls = [&](const char* name, uint64_t bytes, double rate,
                         const bench::LatencyHistogram& latency) {
    fields.Add(name, absl::StrFormat(
                         "%s at %.2f GB/s; a call of up to %d blocks: p50 %.0f us, p99 %.0f us",
                         HumanBytes(bytes), rate, report.play.batch_blocks,
                         latency.QuantileMicros(0.5), latency.QuantileMicros(0.99)));
  };
  calls("get", tally.get_bytes, report.get_gbps(), tally.get);
  calls("put", tally.put_bytes, report.put_gbps(), tally.put);
  fields.Add("match", absl::StrFormat("p50 %.0f us, p99 %.0f us", tally.match.QuantileMicros(0.5),
                                      tally.match.QuantileMicros(0.99)));
  fields.Add("pool",
             absl::StrFormat("%d evicted, %d puts refused, %d blocks lost between match and get",
                             report.pool.evicted, tally.refused, tally.lost_after_match));
  fields.Add("checked",
             absl::StrFormat("%s read, %d wrong bytes, %d errors", HumanBytes(tally.get_bytes),
                             tally.wrong_bytes, tally.errors));
  fields.Print(stdout);
}

int Run(const Session& session, const Arguments& arguments) {
  if (arguments.trace_file.empty() == arguments.generate.empty()) {
    return FailUsage(session, UsageError("no workload, or two",
                                         "name a trace with --trace FILE, "
                                         "or --generate one: chat or agent"));
  }
  const absl::Status writable = CheckJsonFile(arguments.json_file);
  if (!writable.ok()) return Fail(session, writable);
  const auto report = Replay(session, arguments);
  if (!report.ok()) return Fail(session, report.status());
  if (arguments.json_file != "-") PrintText(*report);
  const absl::Status written = WriteJson(arguments.json_file, replay::ToJson(*report));
  if (!written.ok()) return Fail(session, written);
  if (!report->play.tally.first_error.ok()) {
    std::fprintf(stderr, "moonpool: first error: %s\n",
                 Printable(Describe(report->play.tally.first_error)).c_str());
  }
  return report->is_clean() ? kOk : kFailed;
}

absl::Status CheckSpeed(const std::string& text) {
  double speed = 0;
  if (text == "max" || (absl::SimpleAtod(text, &speed) && speed > 0)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("\"", text, "\" is not allowed; give max or a number above 0"));
}

void AddTraceOptions(CLI::App& command, Arguments& arguments) {
  AddTextOption(command, "--trace", &arguments.trace_file,
                "A trace: conversation or agent sessions")
      ->type_name("FILE");
  AddChoiceOption(command, "--generate", &arguments.generate, {"chat", "agent"},
                  "Or make one up: chat or agent")
      ->type_name("KIND");
  AddNumberOption(command, "--requests", &arguments.generator.requests, {1, kRequestsMax},
                  "Of a made-up trace [12000]");
  AddNumberOption(command, "--seed", &arguments.generator.seed, {}, "Of a made-up trace [1]");
  AddNumberOption(command, "--limit", &arguments.limit, {.min = 1}, "Play only the first requests");
}

}  // namespace

void AddReplayCommand(CLI::App& app, Session& session) {
  CLI::App* const command = AddPoolCommand(
      app, session, "replay", "Play a workload; hit rate beside the ideal",
      {"moonpool replay --generate chat --requests 2000\n"
       "moonpool replay --trace chats.jsonl --block-bytes 64KiB --json out.json\n"
       "moonpool replay --trace sessions.tar.xz --clients 4 --speed 100",
       "Every byte read is compared with what was stored; one wrong byte makes it\nfail. "
       "The p50 and p99 of get and put are those of a call, which moves a\nbatch of blocks."});
  auto arguments = std::make_shared<Arguments>();
  AddTraceOptions(*command, *arguments);
  AddBytesOption(*command, "--block-bytes", &arguments->block_bytes,
                 "Of a block [so that a fifth fits into the pool]");
  AddNumberOption(*command, "--clients", &arguments->clients, {1, 64},
                  "Engines at the same time [1]");
  command->add_option("--speed", arguments->speed, "Times the trace's pace; max: no waiting [max]")
      ->type_name("X")
      ->check(Accepts(CheckSpeed));
  AddRealOption(*command, "--prefill-tokens-per-s", &arguments->prefill_tokens_per_s, 0,
                std::numeric_limits<double>::max(),
                "Modelled prefill at a paced --speed; 0: none [20000]");
  AddKeyOption(*command, "--key-prefix", &arguments->key_prefix, "Of the keys [new in every run]");
  AddChoiceOption(*command, "--path", &arguments->path, {"auto", "tcp", "shm"},
                  "auto, tcp or shm [auto]");
  AddJsonFileOption(*command, session, &arguments->json_file);
  command->callback([&session, arguments] {
    session.run = [&session, arguments] { return Run(session, *arguments); };
  });
}

}  // namespace moonpool::cli
