// A call whose answer is ready, and is given once the change that it tells of is durable.
#pragma once

#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "common/error.h"
#include "master/handlers/unsaved_changes.h"
#include "master/handlers/waiters.h"

namespace moonpool::master {

// It was done, and the store has not said that it is durable.
inline absl::Status SaveIsSlow() {
  return MakeError(absl::StatusCode::kDeadlineExceeded, ErrorReason::kDeadline,
                   "done, but the master's meta store has not said yet that it outlives a restart",
                   {.hint = "repeat the call to learn when it does"});
}

class WaitingForSave final : public Waiter {
 public:
  // With OK: the answer as it is.
  using Answer = absl::AnyInvocable<void(absl::Status) &&>;

  // `unsaved` is borrowed.
  WaitingForSave(const UnsavedChanges& unsaved, ChangeNumber number, Answer answer)
      : unsaved_(unsaved), number_(number), answer_(std::move(answer)) {}

  size_t key_count() const override { return 1; }

  Progress Retry(absl::Time) override {
    std::optional<absl::Status> outcome = unsaved_.OutcomeOf(number_);
    if (!outcome.has_value()) return Progress::kOther;
    std::move(answer_)(*std::move(outcome));
    return Progress::kDone;
  }
  void Expire(absl::Time) override { std::move(answer_)(SaveIsSlow()); }
  void Fail(const absl::Status& status, absl::Time) override { std::move(answer_)(status); }

 private:
  const UnsavedChanges& unsaved_;
  const ChangeNumber number_;
  Answer answer_;
};

}  // namespace moonpool::master
