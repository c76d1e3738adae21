// When to publish a batch of no events. Who has missed the last batch before a silence, or the
// first after a restart, sees the gap in the numbers only when the next one comes: so soon after
// the last events there is one, and then more and more rarely, since each takes the place of a
// batch that is kept.
//
//   on events: publish them; beat.OnPublished(now);
//   where nothing happens, now and then: if (beat.IsDue(now)) publish a batch of none;
#pragma once

#include <algorithm>

#include "absl/time/time.h"

namespace moonpool::cli {

class IdleBeat {
 public:
  void OnPublished(absl::Time now) {
    wait_ = kFirst;
    due_ = now + wait_;
  }
  bool IsDue(absl::Time now) {
    if (now < due_) return false;
    wait_ = std::min(2 * wait_, kMost);
    due_ = now + wait_;
    return true;
  }

 private:
  static constexpr absl::Duration kFirst = absl::Milliseconds(500);
  static constexpr absl::Duration kMost = absl::Minutes(1);

  absl::Duration wait_ = kFirst;
  absl::Time due_ = absl::InfiniteFuture();  // there was nothing that could be missed
};

}  // namespace moonpool::cli
