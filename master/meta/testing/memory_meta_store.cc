#include "master/meta/testing/memory_meta_store.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/error.h"

namespace moonpool::master {

MemoryMetaStore::MemoryMetaStore(MemoryDisk& disk, std::function<void()> on_held)
    : on_held_(std::move(on_held)), disk_(disk) {}

MemoryMetaStore::~MemoryMetaStore() {
  while (held() > 0) FinishOne(absl::UnavailableError("the store was closed"));
}

absl::StatusOr<std::vector<MetaRecord>> MemoryMetaStore::Load(absl::Time) {
  absl::MutexLock lock(&mutex_);
  std::vector<MetaRecord> records;
  for (const auto& [key, value] : disk_) records.push_back({key, value});
  return records;
}

void MemoryMetaStore::Write(MetaBatch batch, WriteDone done) {
  absl::Status outcome;
  {
    absl::MutexLock lock(&mutex_);
    outcome = outcome_;
    if (is_holding_ && held_.size() >= kWritesMax) {
      outcome = MakeError(absl::StatusCode::kResourceExhausted, ErrorReason::kLimitReached,
                          absl::StrCat("more than ", kWritesMax, " writes are under way"));
    } else if (is_holding_) {
      held_.push_back(Held{std::move(batch), std::move(done)});
    } else if (outcome.ok()) {
      Apply(batch);
    }
  }
  if (done) return std::move(done)(std::move(outcome));
  if (on_held_) on_held_();
}

void MemoryMetaStore::Hold() {
  absl::MutexLock lock(&mutex_);
  is_holding_ = true;
}

void MemoryMetaStore::FinishOne(const absl::Status& outcome) {
  WriteDone done;
  {
    absl::MutexLock lock(&mutex_);
    MP_CHECK(!held_.empty(), "no write waits");
    if (outcome.ok()) Apply(held_.front().batch);
    done = std::move(held_.front().done);
    held_.pop_front();
  }
  std::move(done)(outcome);
}

void MemoryMetaStore::Release() {
  {
    absl::MutexLock lock(&mutex_);
    is_holding_ = false;
  }
  while (held() > 0) FinishOne();
}

void MemoryMetaStore::FailWrites(absl::Status outcome) {
  absl::MutexLock lock(&mutex_);
  outcome_ = std::move(outcome);
}

size_t MemoryMetaStore::held() const {
  absl::MutexLock lock(&mutex_);
  return held_.size();
}

void MemoryMetaStore::Apply(const MetaBatch& batch) {
  for (const MetaChange& change : batch) {
    if (change.value.has_value()) {
      disk_[change.key] = *change.value;
    } else {
      disk_.erase(change.key);
    }
  }
}

}  // namespace moonpool::master
