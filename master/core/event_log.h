// What became of objects, in order: a bounded memory of the last events, for those who follow them.
//
//   EventLog log(/*max_events=*/65536, id);
//   log.Start();
//   log.Add(Event{.kind = EventKind::kStored, ...});
//   for (uint64_t n = seen + 1; n < log.next(); ++n) Send(log[n]);   // while seen + 1 >= first()
//
// Events are numbered from 1 on, also those that are not kept: nobody may be listening. So who
// knows up to where he has come can tell whether the log still has what follows.
//
// Memory: nothing before Start, then up to max_events entries of 48 bytes and their text, which is
// copied into a queue of bytes: the core adds an event with every put, under the lock of all calls.
#pragma once

#include <array>
#include <cstdint>

#include "absl/container/inlined_vector.h"
#include "absl/strings/string_view.h"
#include "common/types.h"
#include "master/core/byte_queue.h"
#include "master/core/chunked_vector.h"
#include "master/core/obituary.h"
#include "master/core/object_table.h"

namespace moonpool::master {

enum class EventKind : uint8_t { kStored, kRemoved };

// Where a replica stood when the event happened. Nodes come and go, so it has names.
struct EventPlace {
  absl::string_view node = {};
  absl::string_view medium = {};
  bool operator==(const EventPlace&) const = default;
};

// Its texts are those of the core or of the log that it is from, until that changes.
struct Event {
  EventKind kind = EventKind::kStored;
  DeathCause cause = DeathCause::kEvicted;  // of a removal
  NamespaceId name_space = 0;
  uint64_t size_bytes = 0;
  Generation generation = {};
  absl::string_view key = {};
  absl::string_view parent = {};                   // empty = start of a chain, or not known
  absl::InlinedVector<EventPlace, 1> places = {};  // without repetition
};

// Up to where somebody has come in one log.
struct EventToken {
  uint64_t log = 0;  // its id
  uint64_t sequence = 0;
  bool operator==(const EventToken&) const = default;
};

class EventLog {
 public:
  // `id` tells this log from those of other masters, and of this one's other lives. 0 events: there
  // is no log, and Start changes nothing.
  EventLog(uint32_t max_events, uint64_t id) : max_(max_events), id_(id) {}

  bool is_possible() const { return max_ > 0; }
  bool is_on() const { return is_on_; }
  void Start() { is_on_ = is_possible(); }
  // Forgets what it has.
  void Stop() {
    is_on_ = false;
    ring_ = {};
    texts_ = {};
  }

  void Add(const Event& event) {
    if (ring_.empty()) base_ = next_;
    if (ring_.size() < max_) {
      ring_.push_back(Keep(event));
    } else {
      Entry& oldest = ring_[(next_ - base_) % max_];
      texts_.Pop(oldest.text_bytes);
      oldest = Keep(event);
    }
    ++next_;
  }
  // Something happens that nobody is going to ask for.
  void Skip() { ++next_; }

  // Of the next event to come.
  uint64_t next() const { return next_; }
  // Of the oldest one that is here; next() when there is none.
  uint64_t first() const { return next_ - ring_.size(); }
  // One of [first(), next()).
  Event operator[](uint64_t sequence) const { return EventOf(ring_[(sequence - base_) % max_]); }

  EventToken last() const { return {.log = id_, .sequence = next_ - 1}; }
  // What follows the token is here, if anything does.
  bool Reaches(const EventToken& token) const {
    return token.log == id_ && token.sequence + 1 >= first() && token.sequence < next_;
  }
  uint64_t id() const { return id_; }
  size_t size() const { return ring_.size(); }

 private:
  // An event whose text is: key, parent, then of each place the lengths of both names and the
  // names.
  struct Entry {
    uint64_t size_bytes = 0;
    Generation generation = {};
    const char* text = nullptr;
    uint32_t text_bytes = 0;
    uint32_t key_bytes = 0;
    uint32_t parent_bytes = 0;
    uint32_t places = 0;
    NamespaceId name_space = 0;
    EventKind kind = EventKind::kStored;
    DeathCause cause = DeathCause::kEvicted;
  };
  using Lengths = std::array<uint32_t, 2>;

  Entry Keep(const Event& event);
  static Event EventOf(const Entry& entry);

  const uint32_t max_;
  const uint64_t id_;
  bool is_on_ = false;
  ChunkedVector<Entry, 256> ring_;
  ByteQueue texts_;    // of the ring's entries, in their order
  uint64_t base_ = 1;  // sequence of what came to ring_[0] first
  uint64_t next_ = 1;
};

}  // namespace moonpool::master
