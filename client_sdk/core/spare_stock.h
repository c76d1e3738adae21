// Grants that the master gave ahead, so that a put waits for one call to it and not for two.
//
//   stock.TookPut({size, replicas});                          // a single put begins
//   if (std::optional<SpareGrant> spare = stock.Take(kind, now)) ...   // write, commit with the
//   key wish.set_count(stock.Wanted(kind, now));                  // said with every single put's
//   commit
//
// There is something for whoever makes the same kind of put again and again, and nobody else: a
// spare is space that nobody can use, and what it writes under a key that is taken was written in
// vain. So a key that turns out to be taken, or a spare that no node takes, ends it for a while.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "client_sdk/core/location.h"
#include "common/rpc/place_answers.h"

namespace moonpool::client {

struct SpareKind {
  uint64_t size_bytes = 0;
  uint32_t replicas = 1;
  bool operator==(const SpareKind&) const = default;
};

struct SpareGrant {
  ToldGrant grant = {};
  Replicas replicas = {};
  absl::Time use_until = {};
};

struct SpareStockOptions {
  // Single puts of a kind before there are spares of it, and after it went wrong.
  int puts_before = 2;
  int puts_after_failure = 16;
};

// Thread-safe. Of the kinds of put that came last.
class SpareStock {
 public:
  // As many of a kind as are held; more are wished for when half of them are gone.
  static constexpr uint32_t kHeld = 8;
  static constexpr size_t kKinds = 4;
  // Of larger objects a call more is nothing.
  static constexpr uint64_t kSizeMax = uint64_t{1} << 20;

  explicit SpareStock(const SpareStockOptions& options) : options_(options) {}

  // A put of this kind begins.
  void TookPut(const SpareKind& kind);
  // One that is still good, the oldest first.
  std::optional<SpareGrant> Take(const SpareKind& kind, absl::Time now);
  // How many to ask for now.
  uint32_t Wanted(const SpareKind& kind, absl::Time now);
  void Add(const SpareKind& kind, SpareGrant spare);
  // The key was taken, or nodes did not take it. Returns what is left of the kind, to be given
  // back.
  std::vector<SpareGrant> Failed(const SpareKind& kind);
  // All that there is, to be given back.
  std::vector<SpareGrant> TakeAll();

 private:
  struct Shelf {
    SpareKind kind;
    int puts_to_come = 0;  // before there are spares
    uint64_t last_put = 0;
    std::vector<SpareGrant> spares = {};  // by age
  };

  Shelf* Find(const SpareKind& kind) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static void DropOld(Shelf& shelf, absl::Time now);

  const SpareStockOptions options_;
  absl::Mutex mutex_;
  std::vector<Shelf> shelves_ ABSL_GUARDED_BY(mutex_);
  uint64_t puts_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace moonpool::client
