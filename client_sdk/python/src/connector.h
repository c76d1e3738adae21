// moonpool.lmcache's native half: batches of keys and buffers that are submitted without waiting,
// and outcomes that are taken when a descriptor says so. The interface is that of LMCache's
// `native_plugin`; nothing in here is LMCache's otherwise.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "client_sdk/python/src/buffers.h"
#include "client_sdk/python/src/completions.h"
#include "client_sdk/python/src/gil.h"
#include "client_sdk/python/src/warnings.h"
#include "common/cancel.h"
#include "moonpool/client.h"

namespace moonpool::python {

struct ConnectorOptions {
  ClientOptions client = {};
  absl::Duration store_timeout = absl::Seconds(10);  // of a batch of stores, or of deletions
  absl::Duration load_timeout = absl::Seconds(10);   // of a batch of loads, or a lookup
  uint32_t replicas = 1;
  bool wait_for_space = false;
};

// Thread-safe; every public method is called with the GIL. Loads and lookups have a client, and so
// threads and a queue, of their own: they never wait behind stores. A batch that cannot be queued,
// or comes after Close, completes at once, as failed: submitting raises for wrong usage only.
class Connector {
 public:
  Connector(ConnectorOptions options, pybind11::object on_warning);
  ~Connector() { Close(); }

  // Readable while there is something to drain. Stays open as long as this, unless it is closed by
  // the caller, who is told nothing more then.
  int event_fd() const;
  // Makes it readable without a batch; the next Drain takes that back.
  void Wake();

  // The number of the batch. `views`: one buffer for each key, lent until the batch is drained.
  // A store: true where the key has an object now, by this batch or before it.
  uint64_t SubmitSet(pybind11::handle keys, pybind11::handle views);
  // A load: true where the buffer was filled to its end, and verified.
  uint64_t SubmitGet(pybind11::handle keys, pybind11::handle views);
  // A lookup: true where the object can be read.
  uint64_t SubmitExists(pybind11::handle keys);
  // A deletion: true where there is no object any more.
  uint64_t SubmitDelete(pybind11::handle keys);

  // (number, ok, error text, [result of each key]) of the batches that are done. `ok`: of a store
  // and a deletion, that all went well; else, that at least one answer is one of the pool's.
  pybind11::list Drain();

  // What is under way is cancelled; when it returns, on any of the threads that call it, nothing
  // touches a buffer. Idempotent; not from `on_warning`. What was not drained can still be.
  void Close();

  ClientStats stats() const;
  // For the collector.
  pybind11::object& on_warning() { return warnings_.function(); }

 private:
  // FailedPrecondition in a forked child: locks, threads and the event are its parent's.
  void RequireOwnProcess() const;
  // A new batch, which has what `views` lend.
  uint64_t Begin(std::unique_ptr<BorrowedBuffers> buffers);
  // `submit(Client&, done)` with the client, if there is one; `done` completes the batch.
  template <typename Results, typename Judge, typename Submit>
  void Run(const std::unique_ptr<Client>& client, uint64_t id, size_t keys, Judge judge,
           Submit submit) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // In a forked child.
  void Abandon() ABSL_NO_THREAD_SAFETY_ANALYSIS;

  const int forks_ = ForkCount();
  Warnings warnings_;  // before the clients, which call it
  const ConnectorOptions options_;
  const std::shared_ptr<Completions> completions_ = std::make_shared<Completions>();
  CancelSource cancel_;
  absl::Mutex closing_;  // held while the clients end
  mutable absl::Mutex
      mutex_;  // held while something is queued, never while something is waited for
  std::unique_ptr<Client> loads_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<Client> stores_ ABSL_GUARDED_BY(mutex_);
  // Below: with the GIL.
  uint64_t last_id_ = 0;
  std::map<uint64_t, std::unique_ptr<BorrowedBuffers>> lent_;  // by batch
};

void BindConnector(pybind11::module_& module);

}  // namespace moonpool::python
