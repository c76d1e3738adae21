// A master's core with millions of objects, and what happens to it: nodes come and go, objects are
// put, removed, evicted, expire. The real core, under a lock as in the master, with nodes that only
// confirm what they are told.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "bench/scale/turns.h"
#include "common/random.h"
#include "master/core/core.h"

namespace moonpool::bench {

// Objects are numbered from 0 on; each has a key of 40 bytes, and the one before as its parent
// within chains of 50. Calls to the core take their turns, as in the master: LocateSome may run
// beside one of the other methods.
class MasterLoad {
 public:
  static constexpr uint64_t kBatch = 64;  // keys of one call to the core

  // Nodes with room for `objects`, and no object yet.
  static absl::StatusOr<std::unique_ptr<MasterLoad>> Start(uint64_t objects, int nodes);

  // The next `count` objects; where the pool is full others are evicted for them.
  absl::Status Put(uint64_t count);
  // Those that were put first and not removed yet. Confirmed by all nodes when it returns.
  absl::Status Remove(uint64_t count);
  // Grants of `count` objects that nobody writes, and their end.
  absl::Status LetExpire(uint64_t count);
  // A node is gone, and with it what it held; it comes again, empty.
  absl::Status LoseNode(int index);

  // One call for `kBatch` objects anywhere among those that were put, whether they are there or
  // not: how long it took, with its wait for the lock.
  absl::StatusOr<absl::Duration> LocateSome(Random& random);

  uint64_t object_count() const;

 private:
  struct Node {
    std::string name;
    NodeId id;
    master::SessionId session;
    uint64_t incarnation = 0;
  };

  explicit MasterLoad(uint64_t bytes_per_node);
  absl::Status Register(Node& node) ABSL_LOCKS_EXCLUDED(turns_);
  absl::StatusOr<std::vector<master::PutOutcome>> StartPuts(uint64_t first, uint64_t count);
  absl::Status PutBatch(uint64_t first, uint64_t count);
  // Nodes confirm what they were told to free.
  void ConfirmFrees() ABSL_EXCLUSIVE_LOCKS_REQUIRED(turns_);
  template <typename Work>
  absl::Status InBatches(uint64_t first, uint64_t count, Work work);
  // Time goes on, and all nodes are there still.
  void Move(absl::Duration duration);
  // What is due then is done, a bounded amount; true: there is more.
  bool Tick();
  // Both, until nothing is due; with rests in between, as the master's timer.
  void Advance(absl::Duration duration);

  const uint64_t bytes_per_node_;
  mutable Turns turns_;
  master::Core core_ ABSL_GUARDED_BY(turns_);
  absl::Time now_ ABSL_GUARDED_BY(turns_) = absl::UnixEpoch();
  std::vector<Node> nodes_;
  std::atomic<uint64_t> next_put_ = 0;
  uint64_t next_removed_ = 0;
  uint64_t next_request_ = 1;
};

}  // namespace moonpool::bench
