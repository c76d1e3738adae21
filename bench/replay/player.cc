#include "bench/replay/player.h"

#include <chrono>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "bench/measure/stopwatch.h"
#include "common/error.h"
#include "common/status_macros.h"

namespace moonpool::replay {
namespace {

constexpr int kFailuresInARow = 20;

// Hands out the requests and collects what happened. Thread-safe.
class Board {
 public:
  Board(const trace::Trace& trace, const PlayOptions& options) : trace_(trace), options_(options) {}

  // nullptr: none left, or the pool is gone.
  const trace::Request* Next() {
    absl::MutexLock lock(&mutex_);
    if (next_ == trace_.requests.size() || failures_ >= kFailuresInARow) return nullptr;
    return &trace_.requests[next_++];
  }

  void WaitForArrival(const trace::Request& request) const {
    if (options_.speed <= 0) return;
    const absl::Duration wait = request.arrival / options_.speed - watch_.elapsed();
    if (wait > absl::ZeroDuration()) std::this_thread::sleep_for(absl::ToChronoNanoseconds(wait));
  }

  void Report(const Tally& one) {
    absl::MutexLock lock(&mutex_);
    failures_ = one.errors > 0 ? failures_ + 1 : 0;
    tally_.Merge(one);
    options_.on_progress(tally_);
  }

  absl::Duration elapsed() const { return watch_.elapsed(); }
  Tally tally() const {
    absl::MutexLock lock(&mutex_);
    return tally_;
  }

 private:
  const trace::Trace& trace_;
  const PlayOptions& options_;
  const bench::Stopwatch watch_;
  mutable absl::Mutex mutex_;
  size_t next_ ABSL_GUARDED_BY(mutex_) = 0;
  int failures_ ABSL_GUARDED_BY(mutex_) = 0;  // requests in a row
  Tally tally_ ABSL_GUARDED_BY(mutex_);
};

void Work(Engine& engine, Board& board) {
  while (const trace::Request* const request = board.Next()) {
    board.WaitForArrival(*request);
    Tally one;
    engine.Play(*request, one);
    board.Report(one);
  }
}

}  // namespace

absl::StatusOr<PlayResult> Play(const trace::Trace& trace, const PlayOptions& options) {
  std::vector<std::unique_ptr<Engine>> engines;
  for (size_t i = 0; i < options.clients; ++i) {
    ASSIGN_OR_RETURN(auto engine, Engine::Connect(options.engine));
    engines.push_back(std::move(engine));
  }
  Board board(trace, options);
  std::vector<std::thread> threads;
  for (auto& engine : engines) {
    threads.emplace_back([&engine = *engine, &board] { Work(engine, board); });
  }
  for (std::thread& thread : threads) thread.join();
  return PlayResult{.tally = board.tally(),
                    .batch_blocks = engines[0]->batch_blocks(),
                    .elapsed = board.elapsed()};
}

}  // namespace moonpool::replay
