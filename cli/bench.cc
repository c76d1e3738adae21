// moonpool bench: the product beside the limits of this machine.
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "bench/data/data_suite.h"
#include "bench/scale/scale_suite.h"
#include "bench/suite/ratios.h"
#include "bench/suite/rounds.h"
#include "cli/commands.h"
#include "cli/control_bench/control_suite.h"
#include "cli/control_bench/grpc_echo.h"
#include "cli/dev_cluster/dev_cluster.h"
#include "cli/dev_cluster/stop_fd.h"
#include "cli/output/progress.h"
#include "cli/output/table.h"
#include "cli/values.h"
#include "common/clock.h"
#include "common/config/units.h"
#include "common/error.h"
#include "common/status_macros.h"
#include "common/version.h"

namespace moonpool::cli {
namespace {

struct Arguments {
  std::string suite = "all";
  int rounds = 5;
  double seconds = 0.2;
  bool quick = false;
  uint64_t dram_bytes = 0;
  uint64_t objects = 10'000'000;  // of the suite "scale"
  std::vector<std::string> only;  // texts in the names of cases or figures
  std::string json_file;

  bool Wants(absl::string_view name) const { return suite == "all" || suite == name; }
  bool needs_pool() const { return Wants("data") || Wants("control"); }
};

struct Outcome {
  std::vector<bench::CaseResult> cases;
  std::vector<bench::FigureResult> figures;
};

// What is measured, and what it borrows.
struct Plan {
  std::unique_ptr<bench::DataSuite> data;
  std::unique_ptr<ControlSuite> control;
  std::unique_ptr<bench::ScaleSuite> scale;
  std::vector<bench::Case> cases;
  std::vector<bench::Figure> figures;

  void Add(std::vector<bench::Case> more_cases, std::vector<bench::Figure> more_figures) {
    for (bench::Case& one : more_cases) cases.push_back(std::move(one));
    for (bench::Figure& one : more_figures) figures.push_back(std::move(one));
  }
};

absl::Status Load(bench::ScaleSuite& suite, uint64_t objects, const dev::StopFd& stop) {
  const SteadyClock clock;
  Progress progress("bench: objects", objects, clock);
  return suite.Load([&](uint64_t loaded) {
    progress.Update(loaded, "");
    return stop.is_requested() ? absl::CancelledError("interrupted") : absl::OkStatus();
  });
}

absl::StatusOr<Plan> MakePlan(const Session& session, const Arguments& arguments,
                              const std::vector<std::string>& masters,
                              const std::vector<pid_t>& servers, const dev::StopFd& stop) {
  Plan plan;
  if (arguments.Wants("data") || arguments.Wants("limits")) {
    ASSIGN_OR_RETURN(plan.data, bench::DataSuite::Prepare({.masters = masters,
                                                           .name_space = session.name_space,
                                                           .with_pool = arguments.Wants("data"),
                                                           .servers = servers}));
    plan.Add(plan.data->Cases(), bench::DataSuite::Figures());
  }
  if (arguments.Wants("control")) {
    ASSIGN_OR_RETURN(plan.control, ControlSuite::Prepare(masters[0], session.name_space));
    plan.Add(plan.control->Cases(), ControlSuite::Figures());
  }
  if (arguments.Wants("scale")) {
    plan.scale = std::make_unique<bench::ScaleSuite>(arguments.objects);
    std::vector<bench::Figure> figures = bench::ScaleSuite::Figures();
    std::vector<bench::Case> cases = bench::Select(plan.scale->Cases(), figures, arguments.only);
    // Minutes, for nothing where none of them is asked for.
    if (!cases.empty()) RETURN_IF_ERROR(Load(*plan.scale, arguments.objects, stop));
    plan.Add(std::move(cases), std::move(figures));
  }
  plan.cases = bench::Select(std::move(plan.cases), plan.figures, arguments.only);
  if (plan.cases.empty()) {
    return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kBadArgument,
                     "no case and no figure has such a name",
                     {.hint = "moonpool bench --quick prints them all"});
  }
  return plan;
}

absl::StatusOr<Outcome> Measure(const Plan& plan, const Arguments& arguments,
                                const dev::StopFd& stop) {
  const SteadyClock clock;
  const auto rounds = static_cast<uint64_t>(arguments.rounds);
  Progress progress("bench", plan.cases.size() * rounds, clock);
  bench::RoundsOptions options;
  options.rounds = arguments.rounds;
  options.time_per_case = absl::Seconds(arguments.seconds);
  options.on_progress = [&progress, &stop](size_t done, const std::string& name) {
    progress.Update(done, name);
    return stop.is_requested() ? absl::CancelledError("interrupted") : absl::OkStatus();
  };
  Outcome outcome;
  ASSIGN_OR_RETURN(outcome.cases, bench::RunRounds(plan.cases, options));
  outcome.figures = bench::Evaluate(plan.figures, outcome.cases);
  return outcome;
}

// Against a cluster of its own, unless --master names one.
absl::StatusOr<Outcome> Bench(const Session& session, const Arguments& arguments, bool has_master) {
  const dev::StopFd stop;
  std::vector<std::string> masters = session.masters;
  std::vector<pid_t> servers;
  std::unique_ptr<dev::DevCluster> cluster;
  if (!has_master && arguments.needs_pool()) {
    const uint64_t dram_bytes =
        arguments.dram_bytes > 0 ? arguments.dram_bytes : bench::DataSuite::NeededBytes({});
    ASSIGN_OR_RETURN(cluster, dev::DevCluster::Start(
                                  {.nodes = 1, .dram_bytes = dram_bytes, .stop_fd = stop.fd()}));
    masters = {cluster->master_address()};
    servers = {cluster->master().process->pid(), cluster->node(0).process->pid()};
  }
  // Once: those that measure find the namespace there.
  if (!session.fingerprint.empty() && arguments.needs_pool()) {
    RETURN_IF_ERROR(Client::Connect({.masters = masters,
                                     .name_space = session.name_space,
                                     .fingerprint = session.fingerprint,
                                     .timeout = session.timeout})
                        .status());
  }
  ASSIGN_OR_RETURN(const Plan plan, MakePlan(session, arguments, masters, servers, stop));
  return Measure(plan, arguments, stop);
}

std::string Range(const bench::Samples& samples, const char* format) {
  const auto number = [format](double value) {
    return absl::StrFormat(*absl::ParsedFormat<'f'>::New(format), value);
  };
  return absl::StrCat(number(samples.Median()), " (", number(samples.Min()), "..",
                      number(samples.Max()), ")");
}

const char* FormatFor(double value) { return value < 10 ? "%.2f" : value < 1000 ? "%.1f" : "%.0f"; }

void PrintText(const Outcome& outcome, bool is_quick) {
  if (is_quick) {
    std::puts(
        "A quick run proves nothing, neither a bound kept nor one broken: it is too short.\n");
  }
  Table cases({{"case"}, {"rate", Align::kRight}, {"unit"}, {"p50 us of a call", Align::kRight}});
  for (const bench::CaseResult& result : outcome.cases) {
    const bool has_rate = result.rate.size() > 0;
    const bool has_p50 = result.p50_us.size() > 0;
    cases.AddRow({result.name, has_rate ? Range(result.rate, FormatFor(result.rate.Median())) : "",
                  has_rate ? result.rate_unit : "",
                  has_p50 ? Range(result.p50_us, FormatFor(result.p50_us.Median())) : ""});
  }
  cases.Print(stdout);
  if (outcome.figures.empty()) return;
  std::puts("");
  Table figures({{"figure"},
                 {"median (min..max)", Align::kRight},
                 {"bound"},
                 {is_quick ? "kept (proves nothing)" : "kept"}});
  for (const bench::FigureResult& result : outcome.figures) {
    const std::optional<bool> keeps = result.KeepsBound();
    figures.AddRow({result.figure.name,
                    Range(result.samples, FormatFor(std::abs(result.samples.Median()))),
                    bench::BoundText(result.figure),
                    !keeps.has_value() ? ""
                    : *keeps           ? "yes"
                                       : "NO"});
  }
  figures.Print(stdout);
}

int Run(const Session& session, const Arguments& arguments, bool has_master) {
  const absl::Status writable = CheckJsonFile(arguments.json_file);
  if (!writable.ok()) return Fail(session, writable);
  const auto outcome = Bench(session, arguments, has_master);
  if (!outcome.ok()) return Fail(session, outcome.status());
  if (arguments.json_file != "-") PrintText(*outcome, arguments.quick);
  nlohmann::ordered_json json = {{"release", kReleaseVersion},
                                 {"rounds", arguments.rounds},
                                 {"seconds_per_case", arguments.seconds},
                                 {"is_quick", arguments.quick}};
  json.update(bench::ToJson(outcome->figures));
  json["cases"] = bench::ToJson(outcome->cases);
  const absl::Status written = WriteJson(arguments.json_file, json);
  return written.ok() ? kOk : Fail(session, written);
}

// Of the suite "control": nobody's command but its own.
void AddEchoServer(CLI::App& app, Session& session) {
  CLI::App* const command = app.add_subcommand(kEchoCommand)->group("");
  command->callback([&session] { session.run = RunEchoServer; });
}

}  // namespace

void AddBenchCommand(CLI::App& app, Session& session) {
  AddEchoServer(app, session);
  CLI::App* const command = AddPoolCommand(
      app, session, "bench", "The pool beside memcpy, raw sockets and bare gRPC",
      {"moonpool bench\nmoonpool bench --suite data --rounds 7 --json bench.json\n"
       "moonpool bench --only shm_get_1m cpu_seconds\nmoonpool bench --quick\nmoonpool bench "
       "--master 10.0.0.1:7400 --suite control",
       "Starts a cluster of its own with one node, unless --master names one (the\n"
       "environment does not). Every round measures every case once; what counts are\n"
       "the ratios within a round. bench/README.md says how to read them."});
  auto arguments = std::make_shared<Arguments>();
  AddChoiceOption(*command, "--suite", &arguments->suite,
                  {"all", "data", "limits", "control", "scale"},
                  "all, data, limits, control or scale [all]");
  AddNumberOption(*command, "--rounds", &arguments->rounds, {1, 100}, "Rounds [5]");
  AddRealOption(*command, "--seconds", &arguments->seconds, 0.001, 60,
                "Of each case in each round [0.2]");
  command
      ->add_option("--only", arguments->only,
                   "Only cases and figures whose name contains one of\nthese (with what a figure "
                   "is compared with)")
      ->type_name("TEXT ...");
  command->add_flag("--quick", arguments->quick,
                    "3 rounds of 0.03 seconds, 100000 objects: a look\nthat proves nothing");
  AddNumberOption(*command, "--objects", &arguments->objects, {10'000, 1'000'000'000},
                  "Of suite scale, in a master of its own [10000000]");
  AddBytesOption(*command, "--dram", &arguments->dram_bytes,
                 "Of the node that it starts [what it needs]");
  AddJsonFileOption(*command, session, &arguments->json_file);
  const CLI::Option* const master = command->get_option("--master");
  const CLI::Option* const global_master = app.get_option("--master");
  command->callback([&session, arguments, master, global_master] {
    if (arguments->quick) {
      arguments->rounds = 3;
      arguments->objects = std::min<uint64_t>(arguments->objects, 100'000);
      arguments->seconds = 0.03;
    }
    const bool has_master = master->count() > 0 || global_master->count() > 0;
    session.run = [&session, arguments, has_master] {
      return Run(session, *arguments, has_master);
    };
  });
}

}  // namespace moonpool::cli
