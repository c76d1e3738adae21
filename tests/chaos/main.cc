// Real processes, each on a host of its own, are killed, stopped, cut off and wiped while clients
// work; what the clients saw is checked (tests/history), while it goes on and when all is healed.
#include <poll.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "absl/strings/str_split.h"
#include "cli/dev_cluster/dev_cluster.h"
#include "cli/dev_cluster/stop_fd.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/random.h"
#include "common/status_macros.h"
#include "tests/chaos/faults.h"
#include "tests/chaos/summary.h"
#include "tests/chaos/worker.h"
#include "tests/chaos/world.h"
#include "tests/harness/etcd_server.h"
#include "tests/harness/guarded_folder.h"
#include "tests/history/checker.h"

namespace moonpool::chaos {
namespace {

constexpr int kHolds = 0;
constexpr int kFails = 1;
constexpr int kCannotRun = 2;

constexpr absl::Duration kWholeMax = absl::Seconds(30);
// Clients leave a peer that failed them alone for up to 2.5 s; what was lost on the way is sent
// again after pauses that grow.
constexpr absl::Duration kSettling = absl::Seconds(4);
constexpr absl::Duration kCalm = absl::Milliseconds(1500);
constexpr absl::Duration kLook = absl::Milliseconds(50);
constexpr size_t kRoundsPerCheck = 5;
constexpr size_t kViolationsShown = 20;
// Shorter than most rounds, as long, and longer.
constexpr absl::Duration kLossTimeouts[] = {absl::Seconds(2), absl::Seconds(5), absl::Seconds(20)};

struct Settings {
  double seconds = 30;
  uint64_t seed = 1;
  size_t masters = 1;
  std::string logs = {};
};

// One run. Used by one thread.
class Run {
 public:
  Run(World& world, const Settings& settings, const dev::StopFd& stop)
      : world_(world), settings_(settings), stop_(stop), random_(settings.seed) {}

  absl::Status Go() {
    const absl::Time begin = clock_.Now();
    const absl::Time end = begin + absl::Seconds(settings_.seconds);
    RETURN_IF_ERROR(Wait(kCalm));
    while (clock_.Now() < end && !is_over()) {
      RETURN_IF_ERROR(OneRound());
      if (++rounds_ % kRoundsPerCheck == 0) RETURN_IF_ERROR(Check());
    }
    lasted_ = clock_.Now() - begin;
    if (stop_.is_requested()) return absl::CancelledError("stopped");
    RETURN_IF_ERROR(world_.Heal());
    RETURN_IF_ERROR(world_.StopClients());
    RETURN_IF_ERROR(world_.Verify());
    return Check();
  }

  std::vector<history::Violation> violations() const {
    std::vector<history::Violation> all = violations_;
    all.insert(all.end(), in_history_.begin(), in_history_.end());
    return all;
  }

  absl::StatusOr<nlohmann::json> Figures() const {
    using history::Op;
    ASSIGN_OR_RETURN(const std::vector<history::Record> records, world_.Records());
    return nlohmann::json{
        {"scenario", "chaos"},
        {"seed", settings_.seed},
        {"seconds", absl::ToDoubleSeconds(lasted_)},
        {"masters", settings_.masters},
        {"rounds", rounds_},
        {"faults", world_.faults()},
        {"calls", CountCalls(records)},
        {"violations", violations().size()},
        {"longest_disturbance_s", absl::ToDoubleSeconds(world_.longest_disturbance())},
        {"longest_without_any_answer_s",
         absl::ToDoubleSeconds(
             LongestSilence(records, {Op::kPut, Op::kGet, Op::kView, Op::kExists, Op::kRemove}))},
        {"longest_without_a_put_s", absl::ToDoubleSeconds(LongestSilence(records, {Op::kPut}))},
        {"ok", violations().empty()}};
  }

 private:
  bool is_over() const {
    return stop_.is_requested() || !violations_.empty() || !in_history_.empty();
  }

  void Report(const char* rule, std::string what) {
    violations_.push_back({.rule = rule, .key = "", .what = std::move(what)});
  }

  // Faults are stretches of time: this one waits for time to pass, and for the wish to stop.
  absl::Status WaitUntil(absl::Time until) {
    while (clock_.Now() < until && !is_over()) {
      pollfd wait = {stop_.fd(), POLLIN, 0};
      const absl::Duration left = std::min(until - clock_.Now(), kLook);
      poll(&wait, 1, static_cast<int>(absl::ToInt64Milliseconds(left)) + 1);
      if (const std::string dead = world_.FindDead(); !dead.empty()) Report("died", dead);
    }
    return absl::OkStatus();
  }
  absl::Status Wait(absl::Duration time) { return WaitUntil(clock_.Now() + time); }

  absl::Status OneRound() {
    struct Step {
      absl::Duration at;
      bool begins;
      Fault fault;
    };
    std::vector<Step> steps;
    for (const Fault& fault : MakeRound(world_.shape(), random_)) {
      steps.push_back({fault.after, true, fault});
      steps.push_back({fault.after + fault.lasts, false, fault});
    }
    std::stable_sort(steps.begin(), steps.end(),
                     [](const Step& left, const Step& right) { return left.at < right.at; });
    const absl::Time begin = clock_.Now();
    for (const Step& step : steps) {
      RETURN_IF_ERROR(WaitUntil(begin + step.at));
      if (is_over()) return absl::OkStatus();
      std::fprintf(stderr, "%7.3f %s %s %zu %zu\n",
                   absl::ToDoubleSeconds(clock_.Now() - absl::UnixEpoch()),
                   step.begins ? "begin" : "end", std::string(FaultName(step.fault.kind)).c_str(),
                   step.fault.target, step.fault.other);
      RETURN_IF_ERROR(step.begins ? world_.Begin(step.fault) : world_.End(step.fault));
    }
    return Recover();
  }

  absl::Status Recover() {
    RETURN_IF_ERROR(world_.Heal());
    const absl::Time deadline = clock_.Now() + kWholeMax;
    while (!world_.IsWhole() && !is_over()) {
      if (clock_.Now() >= deadline) {
        Report("stuck", "everything runs and is connected, and the pool does not become whole");
      }
      RETURN_IF_ERROR(Wait(kLook));
    }
    RETURN_IF_ERROR(Wait(kSettling));
    world_.BeginCalm();
    return Wait(kCalm);
  }

  // What was once found stays: more records explain nothing that fewer did not.
  absl::Status Check() {
    if (!in_history_.empty()) return absl::OkStatus();
    const absl::Time now = clock_.Now();
    ASSIGN_OR_RETURN(std::vector<history::Record> records, world_.Records());
    in_history_ = history::Check(history::AsOf(std::move(records), now), world_.excuses());
    return absl::OkStatus();
  }

  const SteadyClock clock_ = {};
  World& world_;
  const Settings& settings_;
  const dev::StopFd& stop_;
  Random random_;
  size_t rounds_ = 0;
  std::vector<history::Violation> violations_;  // that processes ended, or the pool is stuck
  std::vector<history::Violation> in_history_;  // of the first look that found any
  absl::Duration lasted_;
};

std::string WhyNot(const Settings& settings) {
  if (const std::string why = harness::Network::WhyNot(); !why.empty()) return why;
  return settings.masters > 1 ? harness::WhyNoEtcd() : "";
}

absl::StatusOr<int> RunChaos(const Settings& settings) {
  ASSIGN_OR_RETURN(const auto pools, harness::GuardedFolder::Create("/dev/shm", "moonpool-chaos-"));
  ASSIGN_OR_RETURN(const auto scratch, harness::GuardedFolder::Create("/tmp", "moonpool-chaos-"));
  const dev::StopFd stop;
  const std::string program_dir = dev::OwnProgramDir();
  if (!settings.logs.empty()) std::filesystem::create_directories(settings.logs);
  ASSIGN_OR_RETURN(
      const auto world,
      World::Start({.seed = settings.seed,
                    .masters = settings.masters,
                    .node_loss_timeout = kLossTimeouts[settings.seed % std::size(kLossTimeouts)],
                    .pools_folder = pools->path(),
                    .logs_folder = settings.logs.empty() ? scratch->path() : settings.logs,
                    .program_dir = program_dir,
                    .worker_program = program_dir + "/chaos"}));
  Run run(*world, settings, stop);
  RETURN_IF_ERROR(run.Go());
  const std::vector<history::Violation> violations = run.violations();
  for (size_t i = 0; i < std::min(violations.size(), kViolationsShown); ++i) {
    const history::Violation& violation = violations[i];
    std::fprintf(stderr, "%s %s: %s\n", violation.rule.c_str(), violation.key.c_str(),
                 violation.what.c_str());
  }
  ASSIGN_OR_RETURN(const nlohmann::json figures, run.Figures());
  std::printf("%s\n", figures.dump().c_str());
  return violations.empty() ? kHolds : kFails;
}

// The exit code, where the command line ends the program: 0 after --help.
std::optional<int> Parse(CLI::App& app, int argc, char** argv) {
  CLI11_PARSE(app, argc, argv);
  return std::nullopt;
}

int Main(int argc, char** argv) {
  Settings settings;
  WorkerOptions worker;
  std::string masters;
  CLI::App app(
      "Breaks a pool of real processes in every way it knows while clients work, and checks what "
      "they saw.\nNeeds root: every process has a host of its own in a network of its own.\n\n"
      "Exit codes: 0 nothing wrong, 1 something was, 2 it cannot run here\n");
  app.add_option("--seconds", settings.seconds, "How long faults go on")->take_last();
  app.add_option("--seed", settings.seed, "Decides which faults, where and for how long")
      ->take_last();
  app.add_option("--masters", settings.masters, "1, or 3 with etcd")
      ->check(CLI::IsMember(std::vector<size_t>{1, 3}));
  app.add_option("--logs", settings.logs, "Folder for logs and records; they stay there");
  CLI::App& work = *app.add_subcommand("worker", "One of the clients; started by the program");
  work.add_option("--masters", masters);
  work.add_option("--host-id", worker.host_id);
  work.add_option("--records", worker.records_path);
  work.add_option("--id", worker.id);
  work.add_option("--seed", worker.seed);
  work.add_option("--keys", worker.keys);
  work.add_flag("--verify", worker.verifies);
  if (const std::optional<int> code = Parse(app, argc, argv)) {
    return *code == 0 ? kHolds : kCannotRun;
  }
  if (work.parsed()) {
    worker.masters = absl::StrSplit(masters, ',');
    return RunWorker(worker);
  }
  if (const std::string why = WhyNot(settings); !why.empty()) {
    std::fprintf(stderr, "chaos: SKIPPED, since it cannot run here: %s\n", why.c_str());
    return kCannotRun;
  }
  const absl::StatusOr<int> code = RunChaos(settings);
  if (code.ok()) return *code;
  std::fprintf(stderr, "chaos: %s\n", Describe(code.status()).c_str());
  return absl::IsFailedPrecondition(code.status()) ? kCannotRun : kFails;
}

}  // namespace
}  // namespace moonpool::chaos

int main(int argc, char** argv) { return moonpool::chaos::Main(argc, argv); }
