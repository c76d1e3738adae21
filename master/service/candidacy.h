// A master's part in the election: it stands, and begins the reigns that it is given.
//
//   Candidacy candidacy(options, etcd, handlers, {clock, registry, logger});
//   candidacy.Start();
//   ... the master serves, or says who does
//   candidacy.Stop();     // resigns: another leads at once
//
// The thread "reign" loads what the masters before have left, and makes the core; it destroys what
// has ended, too, which takes as long as there are objects. The lease is not its concern: that one
// is renewed on a thread of its own. While the load fails, the reign goes on without serving and
// the load is repeated: whoever led instead would ask the same etcd.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/cancel.h"
#include "common/clock.h"
#include "common/http/http_server.h"
#include "common/log.h"
#include "common/metrics/metrics.h"
#include "master/core/options.h"
#include "master/election/election_metrics.h"
#include "master/election/election_options.h"
#include "master/etcd/etcd.h"
#include "master/service/election_thread.h"
#include "master/service/shared_handlers.h"

namespace moonpool::master {

struct CandidacyOptions {
  ElectionOptions election = {};
  CoreOptions core = {};
  absl::Duration load_timeout = absl::Seconds(10);  // of one attempt
  absl::Duration load_retry = absl::Seconds(1);     // from a failed one to the next
};

class Candidacy {
 public:
  struct Dependencies {  // borrowed
    const Clock& clock;
    metrics::Registry& registry;
    Logger& logger;
  };
  // Borrows etcd, whose calls may outlive this, and the handlers.
  Candidacy(CandidacyOptions options, Etcd& etcd, SharedHandlers& handlers,
            Dependencies dependencies);
  ~Candidacy();  // stops
  Candidacy(const Candidacy&) = delete;
  Candidacy& operator=(const Candidacy&) = delete;

  void Start();
  // Resigns, and ends the reign if there is one, its load and its writes included. Takes half a
  // lease at most. Idempotent.
  void Stop();

  // Healthy in every role: who leads, who does not, and who has no etcd all do what they can.
  Health health() const;

 private:
  void OnEvent(const ElectionEvent& event);
  void Run();
  void TryToBegin(const Reigns::Beginning& next);
  // Cancelled when that reign ends.
  CancelToken EndOf(Reign reign);
  // OK also when the reign has ended meanwhile.
  absl::Status Load(const Reigns::Beginning& next, const CancelToken& end);
  void NoteFailure(const absl::Status& failure);

  const CandidacyOptions options_;
  Etcd& etcd_;
  SharedHandlers& handlers_;
  const Clock& clock_;
  Logger& logger_;
  ElectionMetrics metrics_;
  metrics::Counter& failed_loads_;
  ElectionThread election_;

  // Of the thread.
  Reign resting_;  // its last load has failed
  absl::Time not_before_ = absl::InfinitePast();

  struct Known {
    Reign reign;
    CancelSource end;
  };
  mutable absl::Mutex mutex_;
  std::optional<Known> last_ ABSL_GUARDED_BY(mutex_);  // the last reign that was to begin
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);       // of the last load

  std::thread thread_;
};

}  // namespace moonpool::master
