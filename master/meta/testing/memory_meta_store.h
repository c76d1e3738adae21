// A MetaStore in memory whose disk outlives it, with time and failures in the hands of the test.
//
//   MemoryDisk disk;
//   MemoryMetaStore store(disk);
//   store.Hold();
//   store.Write(batch, done);
//   store.FinishOne(DiskFull());   // or FinishOne(), or Release()
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "master/meta/meta_store.h"

namespace moonpool::master {

using MemoryDisk = std::map<std::string, std::string>;

// Thread-safe, its disk aside: nobody else touches that while the store is open.
class MemoryMetaStore final : public MetaStore {
 public:
  static constexpr size_t kWritesMax = 64;

  // `disk` is borrowed. `on_held`, which may be empty, is called for each write that has to wait.
  explicit MemoryMetaStore(MemoryDisk& disk, std::function<void()> on_held = {});
  // Writes that wait end with UNAVAILABLE, and are not carried out.
  ~MemoryMetaStore() override;

  absl::StatusOr<std::vector<MetaRecord>> Load(absl::Time deadline) override;
  void Write(MetaBatch batch, WriteDone done) override;

  // From now on writes wait.
  void Hold();
  // Ends the oldest write that waits: it is carried out when `outcome` is OK.
  void FinishOne(const absl::Status& outcome = absl::OkStatus());
  // Carries out all that waits, and what comes from now on at once.
  void Release();
  // From now on writes that need not wait end with `outcome`.
  void FailWrites(absl::Status outcome);
  size_t held() const;

 private:
  struct Held {
    MetaBatch batch;
    WriteDone done;
  };
  void Apply(const MetaBatch& batch) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::function<void()> on_held_;
  mutable absl::Mutex mutex_;
  MemoryDisk& disk_ ABSL_GUARDED_BY(mutex_);
  std::deque<Held> held_ ABSL_GUARDED_BY(mutex_);
  bool is_holding_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status outcome_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace moonpool::master
