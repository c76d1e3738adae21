// A MetaStore in etcd, for masters that elect their leader there: the next one finds what this one
// has written, on whatever machine it runs.
//
//   // Told by its election that it leads, in `reign`:
//   EtcdMetaStore store({.prefix = "/moonpool/c", .reign = reign}, etcd, clock);
//
// Each record is a key below PREFIX/meta/. A write goes through only while the leader key is the
// one of this reign, so a master that was superseded writes nothing, whatever it believes.
//
// Writes keep their order though etcd is asked again when an answer is lost: each one carries a tag
// that it leaves in PREFIX/meta-writer, and goes through only on top of the one before. A late copy
// of an older write finds that key changed, and does nothing.
//
// Writes that queue up while etcd is busy go in one transaction, as many as fit. A batch is never
// split: one that does not fit into a transaction is refused (INVALID_ARGUMENT).
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/cancel.h"
#include "common/clock.h"
#include "master/election/leadership.h"
#include "master/etcd/etcd.h"
#include "master/meta/meta_store.h"

namespace moonpool::master {

struct EtcdMetaStoreOptions {
  std::string prefix;       // as in ElectionOptions
  Reign reign;              // one store for each
  size_t writes_max = 256;  // under way at the same time
  // A write that is not through by then fails: by then this master has long lost its lease.
  absl::Duration write_timeout = absl::Seconds(10);
  // Once it is cancelled nobody waits for etcd any more: the load ends, writes are given up.
  CancelToken cancel = {};
};

// Its own thread, "meta", asks etcd for writes and calls their `done`s, those of writes aside that
// are refused at once.
class EtcdMetaStore final : public MetaStore {
 public:
  // A batch changes at most this many keys: etcd takes 128 operations (--max-txn-ops), and one is
  // the tag.
  static constexpr size_t kBatchKeysMax = 127;
  // Of keys and values: etcd takes requests of 1.5 MiB (--max-request-bytes).
  static constexpr size_t kBatchBytesMax = size_t{1} << 20;

  // Borrows etcd and the clock.
  EtcdMetaStore(EtcdMetaStoreOptions options, Etcd& etcd, const Clock& clock);
  // Carries out the writes that were taken, or gives them up after their timeout. Calls to etcd may
  // go on a little longer.
  ~EtcdMetaStore() override;

  absl::StatusOr<std::vector<MetaRecord>> Load(absl::Time deadline) override;
  void Write(MetaBatch batch, WriteDone done) override;

 private:
  struct Pending {
    MetaBatch batch;
    WriteDone done;
    absl::Time deadline;
  };
  // Adjacent writes that go together.
  using Group = std::vector<Pending>;

  std::string RecordKey(const std::string& key) const { return options_.prefix + "/meta/" + key; }
  std::string leader_key() const { return options_.prefix + "/leader"; }
  std::string writer_key() const { return options_.prefix + "/meta-writer"; }

  void Run();
  // Empty: the store is at its end.
  Group TakeGroup();
  absl::Status WriteGroup(const Group& group);
  EtcdTxn MakeTxn(const std::vector<EtcdOp>& changes, const std::string& tag) const;
  // What a transaction that did not go through has found; nullopt: it is worth another attempt.
  std::optional<absl::Status> Judge(const EtcdTxnResult& found, const std::string& tag,
                                    bool may_be_written);
  absl::StatusOr<EtcdAnswer> Ask(EtcdRequest request, absl::Time deadline);
  // Until `deadline` at most, or a cancel; longer with each attempt.
  void WaitToRetry(int attempt, absl::Time deadline) const;

  const EtcdMetaStoreOptions options_;
  Etcd& etcd_;
  const Clock& clock_;
  const uint64_t nonce_;  // tells the tags of this store from those of any other

  // Of the thread alone.
  uint64_t groups_ = 0;
  int64_t writer_revision_ = 0;  // of the last change of writer_key, as far as is known

  absl::Mutex mutex_;
  std::deque<Pending> queue_ ABSL_GUARDED_BY(mutex_);
  size_t under_way_ ABSL_GUARDED_BY(mutex_) = 0;
  bool is_stale_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_stopping_ ABSL_GUARDED_BY(mutex_) = false;

  std::thread thread_;  // last: it starts when all else is there
};

}  // namespace moonpool::master
