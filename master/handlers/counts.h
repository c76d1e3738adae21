// What the handlers count, in plain numbers since their start: the edge turns them into metrics,
// the simulator reads them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "master/core/event_cursor.h"

namespace moonpool::master {

// One number per ErrorReason; those that this version does not know share index 0.
class ReasonCounts {
 public:
  static constexpr size_t kReasons = 128;
  void Add(int reason) {
    ++counts_[reason >= 0 && reason < static_cast<int>(kReasons) ? static_cast<size_t>(reason) : 0];
  }
  uint64_t operator[](size_t reason) const { return counts_[reason]; }

 private:
  std::array<uint64_t, kReasons> counts_ = {};
};

struct HandlerCounts {
  uint64_t hits = 0;          // keys that Locate and MatchPrefix found
  ReasonCounts misses;        // keys that they did not find
  uint64_t leases = 0;        // locations answered with a lease
  ReasonCounts refused;       // puts without a grant
  uint64_t bad_requests = 0;  // refused before the core saw them

  uint64_t waits = 0;  // calls that began to wait
  uint64_t waits_expired = 0;
  uint64_t waits_cancelled = 0;
  uint64_t waits_refused = 0;  // there were too many

  uint64_t registrations = 0;
  uint64_t registrations_refused = 0;
  uint64_t sessions_replaced = 0;
  uint64_t sessions_timed_out = 0;
  uint64_t records = 0;              // sealed parts from inventories and seal reports
  uint64_t records_quarantined = 0;  // of them not passed to the core
  uint64_t protocol_errors = 0;      // messages of nodes that were ignored or ended the session
  uint64_t commands_sent = 0;
  uint64_t commands_dropped = 0;  // no room or no session; the core repeats them

  uint64_t events_sent = 0;                              // to watchers
  std::array<uint64_t, kEventResets> event_resets = {};  // by EventCursor::Reset

  uint64_t meta_writes = 0;  // batches for the meta store
  uint64_t meta_failures = 0;
};

}  // namespace moonpool::master
