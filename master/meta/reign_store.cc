#include "master/meta/reign_store.h"

#include <algorithm>
#include <utility>

#include "master/meta/records.h"

namespace moonpool::master {
namespace {

// The newest term that the batch makes durable; 0: none.
Term TermOf(const MetaBatch& batch) {
  std::vector<MetaRecord> records;
  for (const MetaChange& change : batch) {
    if (change.value.has_value()) records.push_back({change.key, *change.value});
  }
  return DecodeRecords(records).state.term;
}

}  // namespace

ReignStore::ReignStore(std::unique_ptr<MetaStore> records, Raise raise)
    : records_(std::move(records)), raise_(std::move(raise)) {}

ReignStore::~ReignStore() {
  absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(this, &ReignStore::is_at_rest));
}

absl::StatusOr<std::vector<MetaRecord>> ReignStore::Load(absl::Time deadline) {
  return records_->Load(deadline);
}

void ReignStore::Write(MetaBatch batch, WriteDone done) {
  const Term term = TermOf(batch);
  if (term == Term{}) return records_->Write(std::move(batch), std::move(done));
  {
    absl::MutexLock lock(&mutex_);
    ++raises_;
  }
  raise_(term,
         [this, batch = std::move(batch), done = std::move(done)](absl::Status status) mutable {
           if (status.ok()) {
             records_->Write(std::move(batch), std::move(done));
           } else {
             std::move(done)(std::move(status));
           }
           absl::MutexLock lock(&mutex_);
           --raises_;  // the last use of *this
         });
}

}  // namespace moonpool::master
