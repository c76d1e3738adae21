#include "tests/sim/mutation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <set>
#include <utility>

#include <CLI/CLI.hpp>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/guard_switch.h"
#include "common/status_macros.h"
#include "tests/sim/cluster.h"
#include "tests/sim/options.h"

namespace moonpool::sim {
namespace {

constexpr int kWrongUsage = 2;
// A run without a guard may never end. With all of them one takes a few seconds at most.
constexpr unsigned kRunSecondsMax = 120;
constexpr size_t kWhatShown = 150;
// Whatever changes in the product or in the simulator changes what a seed comes to. Where the one
// of the list does not show the absence any more, one of those behind it may.
constexpr uint64_t kSeedsTried = 100;

// One line of the list: without these guards this seed, or this unit test, fails.
struct Mutation {
  std::string names;
  std::vector<Guard> guards = {};
  uint64_t seed = 0;
  std::string test = {};  // Suite.Name; empty: the seed

  std::string by() const { return test.empty() ? absl::StrCat("seed ", seed) : test; }
};

absl::StatusOr<std::vector<Guard>> GuardsNamed(absl::Span<const std::string> names) {
  std::vector<Guard> guards;
  for (const std::string& name : names) {
    const std::optional<Guard> guard = GuardNamed(name);
    if (!guard.has_value()) return absl::NotFoundError(absl::StrCat("no guard \"", name, "\""));
    guards.push_back(*guard);
  }
  return guards;
}

// "guard[+guard] seed|unit:Suite.Name what is seen"
absl::StatusOr<Mutation> ParseLine(const std::string& line) {
  const std::vector<std::string> words = absl::StrSplit(line, absl::MaxSplits(' ', 2));
  if (words.size() < 3) return absl::InvalidArgumentError("guard, seed, and what is seen");
  const std::vector<std::string> names = absl::StrSplit(words[0], '+');
  Mutation mutation{.names = words[0]};
  ASSIGN_OR_RETURN(mutation.guards, GuardsNamed(names));
  absl::string_view test = words[1];
  if (absl::ConsumePrefix(&test, "unit:")) {
    mutation.test = std::string(test);
  } else if (!absl::SimpleAtoi(words[1], &mutation.seed)) {
    return absl::InvalidArgumentError(absl::StrCat("no seed: ", words[1]));
  }
  return mutation;
}

absl::StatusOr<std::vector<Mutation>> ReadList(const std::string& path) {
  std::ifstream file(path);
  if (!file.is_open()) return absl::NotFoundError(absl::StrCat("cannot open ", path));
  std::vector<Mutation> mutations;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    if (line.empty() || line[0] == '#') continue;
    absl::StatusOr<Mutation> mutation = ParseLine(line);
    if (!mutation.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ":", number, ": ", mutation.status().message()));
    }
    mutations.push_back(*std::move(mutation));
  }
  return mutations;
}

// The first failure of a test, in its words.
class FirstFailure final : public testing::EmptyTestEventListener {
 public:
  explicit FirstFailure(std::string& what) : what_(what) {}
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (result.failed() && what_.empty()) what_ = result.summary();
  }

 private:
  std::string& what_;
};

// Once in a process. "" when it passes.
std::string RunTest(const std::string& name) {
  int argc = 1;
  char program[] = "moonpool-sim";
  char* argv[] = {program, nullptr};
  testing::InitGoogleMock(&argc, argv);
  testing::GTEST_FLAG(filter) = name;
  std::string what;
  auto& listeners = testing::UnitTest::GetInstance()->listeners();
  delete listeners.Release(listeners.default_result_printer());
  listeners.Append(new FirstFailure(what));
  const int failed = RUN_ALL_TESTS();
  if (testing::UnitTest::GetInstance()->test_to_run_count() != 1) return "there is no such test";
  return failed != 0 && what.empty() ? "it fails" : what;
}

std::string RunOne(const Mutation& mutation) {
  if (!mutation.test.empty()) return RunTest(mutation.test);
  return RunCluster(SimOptions::FromSeed(mutation.seed)).violation;
}

// In a process of its own, since what has no guards may crash, or never end. What it returns, or
// how it ended.
std::string RunApart(absl::FunctionRef<std::string()> run) {
  int ends[2];
  if (pipe(ends) != 0) return "no pipe";
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    alarm(kRunSecondsMax);
    const std::string what = run();
    const bool is_told =
        write(ends[1], what.data(), what.size()) == static_cast<ssize_t>(what.size());
    _exit(is_told ? 0 : 1);
  }
  close(ends[1]);
  std::string what;
  char buffer[4096];
  for (ssize_t got; (got = read(ends[0], buffer, sizeof(buffer))) > 0;) {
    what.append(buffer, static_cast<size_t>(got));
  }
  close(ends[0]);
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child) return "no process";
  if (WIFSIGNALED(status)) return absl::StrCat("ended by signal ", WTERMSIG(status));
  return what.empty() && WEXITSTATUS(status) != 0 ? "it cannot be told" : what;
}

std::string Shortened(const std::string& what) {
  const std::string line = absl::StrReplaceAll(what, {{"\n", " "}});
  return line.substr(0, kWhatShown);
}

struct Verdict {
  std::string with;     // what is seen with the guard: nothing, if it is well
  std::string without;  // and without it
  bool is_caught() const { return with.empty() && !without.empty(); }
};

Verdict Try(const Mutation& mutation) {
  Verdict verdict;
  verdict.without = RunApart([&] {
    const WithoutGuards off(mutation.guards);
    return RunOne(mutation);
  });
  if (!verdict.without.empty()) verdict.with = RunApart([&] { return RunOne(mutation); });
  return verdict;
}

// Prints a row; true when it is caught.
bool Check(const Mutation& mutation) {
  Mutation tried = mutation;
  Verdict verdict = Try(tried);
  const uint64_t last = mutation.test.empty() ? mutation.seed + kSeedsTried : 0;
  while (verdict.without.empty() && tried.seed < last) {
    ++tried.seed;
    verdict = Try(tried);
  }
  const bool has_moved = verdict.is_caught() && tried.seed != mutation.seed;
  const char* const word = verdict.is_caught()    ? "caught"
                           : verdict.with.empty() ? "NOT CAUGHT"
                                                  : "FAILS WITH IT";
  absl::PrintF("%-30s %-10s %s%s\n%42s%s\n", mutation.names, word, tried.by(),
               has_moved ? absl::StrCat(", no more by ", mutation.by()) : "", "",
               Shortened(verdict.with.empty() ? verdict.without : verdict.with));
  std::fflush(stdout);
  return verdict.is_caught();
}

int CheckAll(const std::string& path) {
  const absl::StatusOr<std::vector<Mutation>> mutations = ReadList(path);
  if (!mutations.ok()) {
    absl::FPrintF(stderr, "%s\n", mutations.status().message());
    return kWrongUsage;
  }
  size_t caught = 0;
  std::set<Guard> alone;  // guards whose absence alone is seen
  for (const Mutation& mutation : *mutations) {
    if (!Check(mutation)) continue;
    ++caught;
    if (mutation.guards.size() == 1) alone.insert(mutation.guards[0]);
  }
  for (int i = 0; i < kGuards; ++i) {
    const auto guard = static_cast<Guard>(i);
    if (!alone.contains(guard)) absl::PrintF("%-30s NOBODY NOTICES\n", GuardName(guard));
  }
  absl::PrintF("%d of %d lines caught, %d of %d guards\n", caught, mutations->size(), alone.size(),
               kGuards);
  return caught == mutations->size() && alone.size() == kGuards ? 0 : 1;
}

}  // namespace

void MutationCheck::AddTo(CLI::App& app) {
  app.add_option("--without", without_, "run without these guards")->delimiter('+');
  app.add_option("--mutations", list_, "check that each line of this list is caught");
}

std::optional<int> MutationCheck::Run() {
  const absl::StatusOr<std::vector<Guard>> guards = GuardsNamed(without_);
  if (!guards.ok()) {
    absl::FPrintF(stderr, "%s\n", guards.status().message());
    return kWrongUsage;
  }
  if (!list_.empty()) return CheckAll(list_);
  if (!guards->empty()) guards_off_ = std::make_shared<WithoutGuards>(*guards);
  return std::nullopt;
}

}  // namespace moonpool::sim
