// What every blocking call carries: until when, and who may stop it.
#pragma once

#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/cancel.h"
#include "common/clock.h"
#include "common/error.h"

namespace moonpool {

struct CallContext {
  absl::Time deadline = absl::InfiniteFuture();  // on the injected clock's time line
  CancelToken cancel;

  absl::Duration Remaining(const Clock& clock) const { return deadline - clock.Now(); }

  // OK while the call may go on; DEADLINE_EXCEEDED or CANCELLED otherwise.
  absl::Status Check(const Clock& clock) const {
    if (cancel.cancelled()) {
      return MakeError(absl::StatusCode::kCancelled, ErrorReason::kCancelledByCaller,
                       "cancelled by the caller");
    }
    if (clock.Now() >= deadline) {
      return MakeError(absl::StatusCode::kDeadlineExceeded, ErrorReason::kDeadline,
                       "deadline passed", {.hint = "raise the timeout or retry"});
    }
    return absl::OkStatus();
  }
};

}  // namespace moonpool
