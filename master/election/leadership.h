// Whether this master leads, and until when: what the service asks with every request.
//
//   const Reign reign = leadership.ReignAt(clock.Now());      // when the request is taken
//   if (reign == Reign{}) return NotLeader();
//   ...
//   if (leadership.ReignAt(clock.Now()) != reign) return NotLeader();   // before it is answered
//
// The deadline is a time on this machine's monotonic clock: a process that was stopped, or cut off
// from etcd, finds itself expired as soon as it looks, with nobody's help.
#pragma once

#include <atomic>
#include <compare>
#include <cstdint>

#include "absl/time/time.h"

namespace moonpool::master {

// One leadership, from the claim of the leader key to its loss; a raise of the term does not end
// it. The number is the key's create revision in etcd: it grows for ever, and etcd refuses what is
// fenced with it once another has taken over. 0 = none.
struct Reign {
  int64_t value = 0;
  auto operator<=>(const Reign&) const = default;
};

// Reading is for any thread, two loads. Writing is for the election alone.
class Leadership {
 public:
  // None when this master does not lead, or may no longer.
  Reign ReignAt(absl::Time now) const {
    // The deadline of a reign is published after its number.
    if (absl::ToUnixNanos(now) >= deadline_ns_.load(std::memory_order_acquire)) return Reign{};
    return Reign{reign_.load(std::memory_order_relaxed)};
  }
  bool IsLeaderAt(absl::Time now) const { return ReignAt(now) != Reign{}; }
  // InfinitePast before the first reign, and between two.
  absl::Time deadline() const {
    const int64_t nanos = deadline_ns_.load(std::memory_order_acquire);
    return nanos == kNever ? absl::InfinitePast() : absl::FromUnixNanos(nanos);
  }

  void Begin(Reign reign, absl::Time deadline) {
    reign_.store(reign.value, std::memory_order_relaxed);
    Extend(deadline);
  }
  void Extend(absl::Time deadline) {
    deadline_ns_.store(absl::ToUnixNanos(deadline), std::memory_order_release);
  }
  void End() { deadline_ns_.store(kNever, std::memory_order_release); }

 private:
  static constexpr int64_t kNever = INT64_MIN;
  std::atomic<int64_t> reign_ = 0;
  std::atomic<int64_t> deadline_ns_ = kNever;
};

}  // namespace moonpool::master
