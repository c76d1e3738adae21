#include "master/handlers/unsaved_changes.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/error.h"
#include "master/meta/records.h"

namespace moonpool::master {
namespace {

absl::Status NotSaved(const absl::Status& status) {
  const bool is_space = absl::IsResourceExhausted(status);
  return MakeError(
      is_space ? absl::StatusCode::kResourceExhausted : absl::StatusCode::kUnavailable,
      ErrorReason::kNotSaved,
      absl::StrCat("the master cannot make it outlive a restart: ", status.message()),
      {.hint = is_space ? "make room for the master's --meta-dir, or in its etcd; reads go on"
                        : "look at the master's log, and at its --meta-dir or etcd; reads go on",
       .retry_after = absl::Seconds(1)});
}

absl::Status Deposed() {
  return MakeError(absl::StatusCode::kFailedPrecondition, ErrorReason::kStaleTerm,
                   "another master has taken over", {.hint = "retry at the other master"});
}

}  // namespace

absl::Status TooManyUnsaved() {
  return MakeError(absl::StatusCode::kResourceExhausted, ErrorReason::kLimitReached,
                   "too many changes wait for the master's meta store",
                   {.hint = "look at the master's log, and at its --meta-dir or etcd; reads go on",
                    .retry_after = absl::Seconds(1)});
}

void UnsavedChanges::Add(const std::vector<DurableChange>& changes) {
  for (const DurableChange& change : changes) queue_.push_back(EncodeChange(change));
}

std::optional<MetaBatch> UnsavedChanges::TakeBatch(absl::Time now) {
  if (queue_.empty() || under_way_ > 0 || now < not_before_ || is_deposed_) return std::nullopt;
  under_way_ = std::min(queue_.size(), kBatchMax);
  ++counts_.meta_writes;
  return MetaBatch(queue_.begin(), queue_.begin() + static_cast<ptrdiff_t>(under_way_));
}

void UnsavedChanges::OnWritten(const absl::Status& status, absl::Time now) {
  MP_CHECK(under_way_ > 0, "no write is under way");
  if (status.ok()) {
    queue_.erase(queue_.begin(), queue_.begin() + static_cast<ptrdiff_t>(under_way_));
    saved_ += under_way_;
    not_before_ = absl::InfinitePast();
  } else {
    ++counts_.meta_failures;
    is_deposed_ = ReasonOf(status) == ErrorReason::kStaleTerm;
    failed_ = saved_ + queue_.size();
    failure_ = is_deposed_ ? Deposed() : NotSaved(status);
    not_before_ = now + options_.meta_retry;
  }
  under_way_ = 0;
}

std::optional<absl::Status> UnsavedChanges::OutcomeOf(ChangeNumber number) const {
  if (IsSaved(number)) return absl::OkStatus();
  if (number <= failed_ || is_deposed_) return failure_;
  return std::nullopt;
}

absl::Time UnsavedChanges::next_try() const {
  return queue_.empty() || under_way_ > 0 || is_deposed_ ? absl::InfiniteFuture() : not_before_;
}

}  // namespace moonpool::master
