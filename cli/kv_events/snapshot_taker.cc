#include "cli/kv_events/snapshot_taker.h"

#include <pthread.h>

#include <utility>

#include "common/check.h"

namespace moonpool::cli {

SnapshotTaker::SnapshotTaker(TakeSnapshot take)
    : take_(std::move(take)), thread_([this] {
        pthread_setname_np(pthread_self(), "snapshot");
        Run();
      }) {}

SnapshotTaker::~SnapshotTaker() {
  {
    absl::MutexLock lock(&mutex_);
    is_stopping_ = true;
  }
  thread_.join();
}

bool SnapshotTaker::is_busy() const {
  absl::MutexLock lock(&mutex_);
  return is_busy_;
}

void SnapshotTaker::Begin(uint64_t batches_max) {
  absl::MutexLock lock(&mutex_);
  MP_CHECK(!is_busy_, "a snapshot is being taken");
  is_busy_ = true;
  wanted_ = batches_max;
}

std::optional<absl::StatusOr<std::vector<std::string>>> SnapshotTaker::TakeDone() {
  absl::MutexLock lock(&mutex_);
  if (!done_.has_value()) return std::nullopt;
  is_busy_ = false;
  return std::exchange(done_, std::nullopt);
}

void SnapshotTaker::Run() {
  while (true) {
    uint64_t batches_max = 0;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(this, &SnapshotTaker::HasWork));
      if (is_stopping_) return;
      batches_max = *std::exchange(wanted_, std::nullopt);
    }
    absl::StatusOr<std::vector<std::string>> taken = take_(batches_max);
    if (taken.ok() && taken->empty()) taken = absl::InternalError("a snapshot of no batches");
    absl::MutexLock lock(&mutex_);
    done_ = std::move(taken);
  }
}

}  // namespace moonpool::cli
