// What becomes of the objects of a pool, as it happens: for routers that send a prompt to where its
// blocks are, for indexes, and for caches of their own.
//
//   auto opened = moonpool::EventStream::Open({.masters = {"127.0.0.1:7400"}});
//   if (!opened.ok()) return opened.status();
//   std::set<std::string> stored;
//   absl::Status end = (*opened)->Run([&](const moonpool::EventBatch& batch) {
//     for (const moonpool::Event& event : batch.events) {
//       switch (event.kind) {
//         case moonpool::EventKind::kStored: stored.insert(event.key); break;
//         case moonpool::EventKind::kRemoved: stored.erase(event.key); break;
//         case moonpool::EventKind::kCleared: stored.clear(); break;
//       }
//     }
//     if (batch.is_whole) ...                    // `stored` is what the pool holds
//     return true;                               // false: that was enough
//   });
//
// A stream begins with kCleared and everything that is stored, told as kStored in many batches, and
// goes on with what happens. What happens meanwhile comes in between: what was told is the right
// set from the first batch on that is whole, and in every one after it. Applied twice, an event
// does no harm.
//
// The stream follows the master that leads. When a connection breaks it goes on where it was; where
// that is not possible (the master keeps only so many events, and another leader has none of an
// older one's) it begins with kCleared again, and EventBatch::reset says why. So does a reader that
// is slower than the pool. A consumer that applies what it is told, in order, is right all the
// same.
//
// Stored is what the master names: an object whose nodes are all away stays so until they count as
// lost (--node-loss-timeout), since they may return with it. Replicas that come and go, while
// others stay, are no events: Event::places is where they stood when the event happened.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/cancel.h"
#include "common/error.h"

namespace moonpool {

enum class EventKind {
  kStored,   // readable from now on
  kRemoved,  // not any more; it may not have been told before
  kCleared,  // all that was told before is void; it has no key
};

struct EventPlace {
  std::string node = {};    // its name
  std::string medium = {};  // "dram", ...
  bool operator==(const EventPlace&) const = default;
};

struct Event {
  EventKind kind = EventKind::kStored;
  uint64_t sequence = 0;  // grows; of what was stored before the stream began, that of its telling
  std::string name_space = {};
  std::string key = {};
  std::string parent = {};  // key of the block before it; empty = first, or not known
  uint64_t size_bytes = 0;
  uint64_t generation = 0;  // of this life of the key
  std::vector<EventPlace> places = {};
  // kRemoved: kEvicted, kRemoved (by request), kNodeLost (with the last node that had it),
  // kChecksumMismatch (its last bytes were found damaged), kStaleGeneration (a newer one has taken
  // its place, and is kStored next).
  ErrorReason reason = ErrorReason::kUnspecified;
};

// Up to where a stream has come. Good for one reign of one master.
struct EventToken {
  uint32_t term = 0;
  uint64_t log = 0;
  uint64_t sequence = 0;
  bool operator==(const EventToken&) const = default;
};

// Why a stream begins (again), before the first event of a batch.
enum class EventReset {
  kNone,
  kStart,     // it has just begun
  kTooOld,    // the master does not remember what followed the token
  kOtherLog,  // another master leads, or this one anew
  kTooSlow,   // the batches were not taken as fast as the pool changed
};

struct EventBatch {
  std::vector<Event> events = {};  // in order; empty: nothing has happened for a while
  EventReset reset = EventReset::kNone;
  bool is_whole = false;  // what was told up to here is what is stored
  // To go on from in another stream or process: EventStreamOptions::resume. Only where is_whole.
  std::optional<EventToken> token = {};
};

struct EventStreamOptions {
  std::vector<std::string> masters = {};  // host:port; at least one, as in ClientOptions
  std::string name_space = {};            // only of this one, also if it is made later; empty = all
  std::optional<EventToken> resume = {};
  // Nothing of what is stored already, and no kCleared: only what happens from now on, or from the
  // token on. After a reset some of it is missing.
  bool live_only = false;
  // While no master can be reached, or none leads, for so long: UNAVAILABLE.
  absl::Duration give_up_after = absl::InfiniteDuration();
};

// One thread at a time runs it.
class EventStream {
 public:
  // Calls nobody. INVALID_ARGUMENT: no masters, or one that is not HOST:PORT.
  static absl::StatusOr<std::unique_ptr<EventStream>> Open(EventStreamOptions options);
  ~EventStream();
  EventStream(const EventStream&) = delete;
  EventStream& operator=(const EventStream&) = delete;

  // Calls `on_batch` on this thread, at least every few seconds while a master leads, until it
  // returns false: OK. Run again, the stream goes on where it was. CANCELLED. UNAVAILABLE: see
  // give_up_after. RESOURCE_EXHAUSTED/LIMIT_REACHED: the master has too many streams.
  // FAILED_PRECONDITION: it keeps no events. UNIMPLEMENTED: it is of a release without events.
  absl::Status Run(const std::function<bool(const EventBatch&)>& on_batch,
                   const CancelToken& cancel = {});

  // Of the last whole batch; none: there was none since the last reset.
  std::optional<EventToken> token() const;

 private:
  struct Rep;
  explicit EventStream(std::unique_ptr<Rep> rep);
  std::unique_ptr<Rep> rep_;
};

}  // namespace moonpool
