// The meta store of one reign. A term is durable where the election counts it, too, before anybody
// may use it: a later leader takes the next one from there.
//
//   ReignStore store(std::make_unique<EtcdMetaStore>(...),
//                    [&](Term at_least, MetaStore::WriteDone done) {
//                      election.RaiseTerm(at_least, std::move(done));
//                    });
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/types.h"
#include "master/meta/meta_store.h"

namespace moonpool::master {

// One write at a time, so that the order of the writes is kept though a term takes its time.
class ReignStore final : public MetaStore {
 public:
  // Has the election count at least this term; `done` once, on any thread: OK when it does.
  using Raise = std::function<void(Term at_least, WriteDone done)>;

  ReignStore(std::unique_ptr<MetaStore> records, Raise raise);
  // Waits for what it has asked of `raise`.
  ~ReignStore() override;

  absl::StatusOr<std::vector<MetaRecord>> Load(absl::Time deadline) override;
  // A term that the election does not count is not written either.
  void Write(MetaBatch batch, WriteDone done) override;

 private:
  bool is_at_rest() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return raises_ == 0; }

  const std::unique_ptr<MetaStore> records_;
  const Raise raise_;
  absl::Mutex mutex_;
  int raises_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace moonpool::master
