// Calls that are not answered yet, and whose turn it is.
//
// A call that cannot be answered now is added here and tried again when the core changes, until it
// is done, its deadline comes, its caller cancels, or the master stops. Each of these answers it
// exactly once. Calls that wait for space are tried in the order in which they came, and one that
// does not fit holds back those behind it for its turn (HandlersOptions::space_turn): space that
// is freed in small pieces reaches the large put, too, and it cannot block the others for ever.
// All others (waiting for a writer, or for a removal) are tried in no order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "master/handlers/counts.h"
#include "master/handlers/options.h"

namespace moonpool::master {

// Names a call that waits; 0 = it was answered at once.
struct CallId {
  uint64_t value = 0;
  auto operator<=>(const CallId&) const = default;
};

// RESOURCE_EXHAUSTED/LIMIT_REACHED: what a key gets that would have had to wait when too many did.
absl::Status TooManyWaiters();

// One call that waits. The functions that end it call its Done.
class Waiter {
 public:
  enum class Progress {
    kDone,   // it was answered
    kSpace,  // it still waits for space
    kOther,  // it still waits for something else
  };

  virtual ~Waiter() = default;
  // How much work one Retry is.
  virtual size_t key_count() const = 0;
  virtual Progress Retry(absl::Time now) = 0;
  // Its time is over: answers with what is true now.
  virtual void Expire(absl::Time now) = 0;
  // Nobody wants the answer any more, or nobody will find it out: answers with `status`.
  virtual void Fail(const absl::Status& status, absl::Time now) = 0;
};

// Externally serialised. Retry, Expire and Fail must not call back into this object.
class Waiters {
 public:
  Waiters(const HandlersOptions& options, HandlerCounts& counts)
      : options_(options), counts_(counts) {}

  bool full() const { return entries_.size() >= options_.max_waiters; }
  size_t size() const { return entries_.size(); }
  bool anyone_waits_for_space() const { return !space_.ids.empty(); }

  // Precondition: !full(), and `progress` (of the first try) is not kDone.
  CallId Add(std::unique_ptr<Waiter> waiter, Waiter::Progress progress, absl::Time deadline);
  // Fails the call; nothing when it was answered already.
  void Cancel(CallId id, const absl::Status& status, absl::Time now);
  void FailAll(const absl::Status& status, absl::Time now);
  void ExpireDue(absl::Time now);

  // Something may have become possible: Pump has work.
  void MarkChanged() {
    space_.Mark();
    others_.Mark();
  }
  // Only the queue for space is to be looked at again.
  void MarkSpace() { space_.Mark(); }
  // Tries what is pending, a bounded number of keys. A batch larger than that waits for a tick.
  enum class Occasion { kCall, kTick };
  void Pump(Occasion occasion, absl::Time now);
  bool pump_pending() const {
    return (space_.is_pending && !space_.ids.empty()) ||
           (others_.is_pending && !others_.ids.empty());
  }

  absl::Time earliest_deadline() const {
    return deadlines_.empty() ? absl::InfiniteFuture() : deadlines_.begin()->first;
  }

 private:
  struct Entry {
    std::unique_ptr<Waiter> waiter;
    absl::Time deadline;
    bool waits_for_space = false;
    absl::Time turn_ends = absl::InfinitePast();  // set when its turn begins
  };
  using Entries = std::map<uint64_t, Entry>;
  struct Queue {
    std::set<uint64_t> ids;
    bool is_pending = false;
    uint64_t cursor = 0;  // where the next pump goes on; 0 = from the start
    // Something changed while a pass stood at the cursor: it may concern those before it, so that
    // another pass follows. Only then: passes that call for each other would never end.
    bool is_stale = false;

    void Mark() {
      is_stale = is_stale || cursor != 0;
      is_pending = true;
    }
    // The place where this pump begins.
    std::set<uint64_t>::iterator Begin() {
      is_pending = std::exchange(is_stale, false);
      return ids.lower_bound(std::exchange(cursor, 0));
    }
    // There was no time for `id` and those after it.
    void StopAt(uint64_t id) {
      is_stale = is_pending;
      is_pending = true;
      cursor = id;
    }
  };

  std::unique_ptr<Waiter> Take(Entries::iterator it);
  // How much may still be done now.
  struct Budget {
    size_t keys;
    bool is_whole_tick;  // the first one may be larger
  };
  // True when the waiter may be tried; it is charged.
  bool Charge(uint64_t id, Budget& budget);
  void PumpSpace(absl::Time now, Budget& budget);
  void PumpOthers(absl::Time now, Budget& budget);
  // True when it left its queue.
  bool Retry(uint64_t id, absl::Time now);

  const HandlersOptions& options_;
  HandlerCounts& counts_;
  uint64_t last_id_ = 0;  // ids grow in the order of arrival
  Entries entries_;
  Queue space_;
  Queue others_;
  std::set<std::pair<absl::Time, uint64_t>> deadlines_;
};

}  // namespace moonpool::master
