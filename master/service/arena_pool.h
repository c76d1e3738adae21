// Where the messages of calls lie: in an arena per call, which is freed at once. An answer about 64
// keys has some four hundred messages inside, and allocating and freeing them one by one costs more
// than finding out what they say.
#pragma once

#include <google/protobuf/arena.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace moonpool::master {

// Arenas that were used before, each with a first block of its own. Thread-safe.
class ArenaPool {
 public:
  class Lease;

  // One that was given back, or a new one.
  std::unique_ptr<Lease> Take();

 private:
  // Beyond these, in calls at a time, arenas are made and thrown away.
  static constexpr size_t kIdleMax = 64;

  void GiveBack(std::unique_ptr<Lease> lease);

  absl::Mutex mutex_;
  std::vector<std::unique_ptr<Lease>> idle_ ABSL_GUARDED_BY(mutex_);
};

class ArenaPool::Lease {
 public:
  explicit Lease(ArenaPool& pool) : pool_(pool), block_(new char[kBlockBytes]), arena_(Options()) {}
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  google::protobuf::Arena& arena() { return arena_; }
  // Frees what is in it; what did not fit the first block goes back to the system.
  static void End(std::unique_ptr<Lease> lease) {
    lease->arena_.Reset();
    ArenaPool& pool = lease->pool_;
    pool.GiveBack(std::move(lease));
  }

 private:
  // An answer about 64 keys of two replicas fits.
  static constexpr size_t kBlockBytes = 64 * 1024;

  google::protobuf::ArenaOptions Options() {
    google::protobuf::ArenaOptions options;
    options.initial_block = block_.get();
    options.initial_block_size = kBlockBytes;
    return options;
  }

  ArenaPool& pool_;
  const std::unique_ptr<char[]> block_;
  google::protobuf::Arena arena_;
};

inline std::unique_ptr<ArenaPool::Lease> ArenaPool::Take() {
  {
    absl::MutexLock lock(&mutex_);
    if (!idle_.empty()) {
      std::unique_ptr<Lease> lease = std::move(idle_.back());
      idle_.pop_back();
      return lease;
    }
  }
  return std::make_unique<Lease>(*this);
}

inline void ArenaPool::GiveBack(std::unique_ptr<Lease> lease) {
  absl::MutexLock lock(&mutex_);
  if (idle_.size() < kIdleMax) idle_.push_back(std::move(lease));
}

}  // namespace moonpool::master
