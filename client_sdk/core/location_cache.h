// Locations a client has learned, so that a batch of known keys costs no call to the master.
//
// Every entry is a hint: the read that uses it verifies what it gets, and the caller forgets the
// entry when it turns out wrong. Entries that are not used go first (CLOCK).
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "client_sdk/core/location.h"
#include "common/types.h"

namespace moonpool::client {

// What RequestHeader.touched carries: an object that was read without a call.
struct Touched {
  uint32_t handle = 0;
  Generation generation;
  bool operator==(const Touched&) const = default;
};

// Thread-safe: keys are spread over shards with a lock each.
class LocationCache {
 public:
  // Of one request (master.proto); more are dropped.
  static constexpr size_t kTouchedMax = 4096;

  // 0 entries: nothing is kept.
  explicit LocationCache(size_t entries_max);

  // nullptr when unknown. A hit is recorded for TakeTouched, once between two of them.
  LocationPtr Find(absl::string_view key);

  // Keeps the location, unless a newer generation is known. Returns what is kept: the one that is
  // known already when it says the same (and what was found out about it).
  LocationPtr Insert(absl::string_view key, LocationPtr location);

  // Forgets the key if it is still at this generation: somebody may have learned better meanwhile.
  void Erase(absl::string_view key, Generation generation);
  // Forgets the key whatever its generation.
  void Erase(absl::string_view key);

  // The hits since the last call, at most kTouchedMax; for the next request to the master.
  std::vector<Touched> TakeTouched();

  size_t size() const;

 private:
  struct Slot {
    std::string key;
    LocationPtr location;        // nullptr: free
    bool is_recent = false;      // used since the hand last passed
    uint64_t touched_round = 0;  // of the shard, when it was last recorded
  };
  struct Shard {
    mutable absl::Mutex mutex;
    std::deque<Slot> slots
        ABSL_GUARDED_BY(mutex);  // in place for ever: `by_key` points to the keys
    absl::flat_hash_map<absl::string_view, uint32_t> by_key ABSL_GUARDED_BY(mutex);
    std::vector<uint32_t> free ABSL_GUARDED_BY(mutex);
    uint32_t hand ABSL_GUARDED_BY(mutex) = 0;
    std::vector<Touched> touched ABSL_GUARDED_BY(mutex);
    uint64_t touched_round ABSL_GUARDED_BY(mutex) = 1;

    uint32_t TakeSlot(size_t slots_max) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
    LocationPtr Release(uint32_t index) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  };
  static constexpr size_t kShards = 16;

  Shard& ShardOf(absl::string_view key);

  const size_t shard_entries_max_;
  Shard shards_[kShards];
};

}  // namespace moonpool::client
