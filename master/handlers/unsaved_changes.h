// Changes of the core's durable state, on their way to the meta store.
//
// They are written in the order in which they were made, some of them at a time, one batch after
// the other. A batch that fails is tried again after a while; until then every change that was
// waiting has failed with it, for those who ask.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "master/core/durable.h"
#include "master/handlers/counts.h"
#include "master/handlers/options.h"
#include "master/meta/meta_store.h"

namespace moonpool::master {

// RESOURCE_EXHAUSTED/LIMIT_REACHED: what a call gets that would have added another one when there
// were too many.
absl::Status TooManyUnsaved();

// Externally serialised.
class UnsavedChanges {
 public:
  // So many changes at a time are within the bounds of every store.
  static constexpr size_t kBatchMax = 100;

  UnsavedChanges(const HandlersOptions& options, HandlerCounts& counts)
      : options_(options), counts_(counts) {}

  // Their numbers follow those of all before.
  void Add(const std::vector<DurableChange>& changes);
  // What is to be written now; nullopt while there is nothing, a write is under way, or one has
  // failed a short time ago.
  std::optional<MetaBatch> TakeBatch(absl::Time now);
  // How the write of that batch ended.
  void OnWritten(const absl::Status& status, absl::Time now);
  // Whether the change is durable: OK, or why it is not yet; nullopt: the store has not said.
  std::optional<absl::Status> OutcomeOf(ChangeNumber number) const;
  ChangeNumber saved() const { return saved_; }
  bool IsSaved(ChangeNumber number) const { return number <= saved_; }

  // When TakeBatch is to be asked again without anything else having happened.
  absl::Time next_try() const;
  size_t size() const { return queue_.size(); }
  // So many that none may be added which could as well be refused.
  bool full() const { return queue_.size() >= options_.max_unsaved_changes; }
  // Another master has taken over: nothing will ever be written again.
  bool is_deposed() const { return is_deposed_; }
  // What everybody is told then.
  const absl::Status& deposed() const { return failure_; }

 private:
  const HandlersOptions& options_;
  HandlerCounts& counts_;
  std::deque<MetaChange> queue_;
  ChangeNumber saved_ = 0;   // this and all before
  size_t under_way_ = 0;     // of the queue's front
  ChangeNumber failed_ = 0;  // this and all before, back to the last saved one
  absl::Status failure_;     // of those
  absl::Time not_before_ = absl::InfinitePast();
  bool is_deposed_ = false;
};

}  // namespace moonpool::master
