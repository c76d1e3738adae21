#include "tests/sim/seed_runner.h"

#include <poll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <new>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "common/check.h"
#include "common/clock.h"

namespace moonpool::sim {
namespace {

constexpr absl::Duration kSayEvery = absl::Seconds(10);
constexpr int kJobsMax = 256;

// What the processes share.
struct Board {
  std::atomic<uint64_t> next = 0;  // of the range
  std::atomic<uint64_t> runs = 0;
  std::atomic<uint64_t> failed = 0;
  std::atomic<bool> is_over = false;
  std::atomic<uint64_t> at[kJobsMax] = {};  // the seed that each job is at; 0: none
};

struct Job {
  pid_t process = 0;
  int sums = -1;     // the end of a pipe
  std::string text;  // what has come through it
};

// One count a line, so that a child's sum goes through a pipe.
std::string Encode(const SeedSum& sum) {
  std::string text = absl::StrCat(sum.runs, " ", sum.failed, " ", sum.events, "\n");
  for (const auto& [name, count] : sum.probes) absl::StrAppend(&text, count, " ", name, "\n");
  return text;
}

SeedSum Decode(const std::string& text) {
  SeedSum sum;
  std::istringstream lines(text);
  lines >> sum.runs >> sum.failed >> sum.events;
  uint64_t count = 0;
  std::string name;
  while (lines >> count && std::getline(lines >> std::ws, name)) sum.probes[name] = count;
  return sum;
}

void WriteAll(int file, const std::string& text) {
  for (size_t done = 0; done < text.size();) {
    const ssize_t written = write(file, text.data() + done, text.size() - done);
    MP_CHECK(written > 0, "the pipe to the parent is broken");
    done += static_cast<size_t>(written);
  }
}

// The whole life of a child.
void Work(const SeedRange& range, size_t job, Board& board, int sums) {
  SeedSum sum;
  while (!board.is_over) {
    const uint64_t index = board.next++;
    if (index >= range.count) break;
    const uint64_t seed = range.first + index;
    board.at[job] = seed;
    const SimOptions options = SimOptions::FromSeed(seed);
    const SimResult result = RunCluster(options);
    sum.Add(result);
    ++board.runs;
    if (result.violation.empty()) continue;
    ++board.failed;
    absl::PrintF("%s", DescribeFailure(options, result));
    std::fflush(stdout);
    if (!range.keep_going) board.is_over = true;
  }
  board.at[job] = 0;
  WriteAll(sums, Encode(sum));
}

Job StartJob(const SeedRange& range, size_t index, Board& board) {
  int ends[2];
  MP_CHECK(pipe(ends) == 0, "no pipe");
  std::fflush(stdout);
  const pid_t process = fork();
  MP_CHECK(process >= 0, "no process");
  if (process == 0) {
    close(ends[0]);
    Work(range, index, board, ends[1]);
    _exit(0);
  }
  close(ends[1]);
  return {.process = process, .sums = ends[0], .text = {}};
}

// Reads what has come; false when the child has ended.
bool Receive(Job& job) {
  char bytes[4096];
  const ssize_t size = read(job.sums, bytes, sizeof(bytes));
  if (size > 0) job.text.append(bytes, static_cast<size_t>(size));
  return size > 0;
}

// Takes over what a child has counted, or says at which seed it has died.
void EndJob(Job& job, const std::atomic<uint64_t>& at, const SeedRange& range, Board& board,
            SeedSum& sum) {
  close(job.sums);
  int state = 0;
  waitpid(job.process, &state, 0);
  if (WIFEXITED(state) && WEXITSTATUS(state) == 0) return sum.Add(Decode(job.text));
  ++sum.failed;
  ++board.failed;
  absl::PrintF("VIOLATION\n  the process ended\n  again with: moonpool-sim --seed %d\n", at.load());
  std::fflush(stdout);
  if (!range.keep_going) board.is_over = true;
}

}  // namespace

void SeedSum::Add(const SimResult& result) {
  ++runs;
  events += result.events;
  failed += result.violation.empty() ? 0 : 1;
  for (const auto& [name, count] : result.probes) probes[name] += count;
  probes["puts acknowledged"] += result.counts.acknowledged;
  probes["gets"] += result.counts.gets;
  probes["hits"] += result.counts.hits;
  probes["holds"] += result.counts.held;
  probes["views"] += result.counts.views;
  for (const auto& [name, count] : result.counts.misses) probes["miss " + name] += count;
  for (const auto& [name, count] : result.counts.refusals) probes["put " + name] += count;
}

void SeedSum::Add(const SeedSum& other) {
  runs += other.runs;
  failed += other.failed;
  events += other.events;
  for (const auto& [name, count] : other.probes) probes[name] += count;
}

std::string DescribeFailure(const SimOptions& options, const SimResult& result) {
  return absl::StrFormat("VIOLATION\n  %s\n  %s\n  again with: moonpool-sim --seed %d\n",
                         result.violation, options.Describe(), options.seed);
}

SeedSum RunSeeds(const SeedRange& range) {
  MP_CHECK(range.jobs >= 1 && range.jobs <= kJobsMax, "jobs", range.jobs);
  void* const shared =
      mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  MP_CHECK(shared != MAP_FAILED, "no shared memory");
  Board& board = *new (shared) Board;
  const SteadyClock clock;
  const absl::Time begun = clock.Now();
  std::vector<Job> jobs;
  for (int i = 0; i < range.jobs; ++i) jobs.push_back(StartJob(range, jobs.size(), board));

  SeedSum sum;
  absl::Time say_at = begun + kSayEvery;
  for (size_t ended = 0; ended < jobs.size();) {
    std::vector<pollfd> waits;
    for (const Job& job : jobs) waits.push_back({.fd = job.sums, .events = POLLIN, .revents = 0});
    const absl::Duration wait = std::max(say_at - clock.Now(), absl::ZeroDuration());
    poll(waits.data(), waits.size(), static_cast<int>(absl::ToInt64Milliseconds(wait)) + 1);
    for (size_t i = 0; i < jobs.size(); ++i) {
      if (waits[i].revents == 0 || Receive(jobs[i])) continue;
      EndJob(jobs[i], board.at[i], range, board, sum);
      jobs[i].sums = -1;  // which poll passes over
      ++ended;
    }
    if (clock.Now() < say_at) continue;
    say_at += kSayEvery;
    const double seconds = absl::ToDoubleSeconds(clock.Now() - begun);
    absl::FPrintF(stderr, "%d of %d seeds, %d violations, %.1f seeds per second\n",
                  board.runs.load(), range.count, board.failed.load(),
                  static_cast<double>(board.runs.load()) / seconds);
  }
  munmap(shared, sizeof(Board));
  return sum;
}

}  // namespace moonpool::sim
