// The thread `election`: keeps this master in the election.
//
//   ElectionThread election(std::make_unique<Election>(...), etcd, clock, on_event);
//   election.Start();
//   ... election.leadership().ReignAt(now) with each request
//   election.Stop();     // resigns: the next master leads at once
//
// Nothing else runs on it, so a renewal of the lease is late only when the machine is, or etcd.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "common/clock.h"
#include "common/steady_cond_var.h"
#include "common/types.h"
#include "master/election/election.h"
#include "master/etcd/etcd.h"

namespace moonpool::master {

class ElectionThread {
 public:
  // Called on the thread, in order. It must not block for long: the lease is renewed on the same
  // thread. It may call anything here but Start and Stop.
  using OnEvent = std::function<void(const ElectionEvent&)>;

  // `election` is not used by anybody else between Start and Stop. Borrows etcd, whose calls may
  // outlive this, and the clock.
  ElectionThread(std::unique_ptr<Election> election, Etcd& etcd, const Clock& clock,
                 OnEvent on_event);
  ~ElectionThread();
  ElectionThread(const ElectionThread&) = delete;
  ElectionThread& operator=(const ElectionThread&) = delete;

  void Start();
  // Resigns, which takes at most half a lease, and joins. Idempotent.
  void Stop();

  // --- Any thread.

  const Leadership& leadership() const { return election_->leadership(); }
  // This leader's term is to become at least this one. `done` is called once, on the thread (or
  // before this returns, when that has ended): with OK when it is, as soon as etcd has it;
  // FAILED_PRECONDITION/STALE_TERM when this master does not lead (any more); OUT_OF_RANGE: there
  // is no such term. While etcd is away it waits. `done` must not block.
  using RaiseDone = absl::AnyInvocable<void(absl::Status) &&>;
  void RaiseTerm(Term at_least, RaiseDone done);
  // Whom to call instead of this master; "" when it leads, or nobody is known to.
  std::string leader() const;
  // One line for people: "leading in term 7", "following 10.0.0.1:7400", "looking: why not".
  std::string Describe() const;

 private:
  struct Raise {
    Term at_least;
    RaiseDone done;
  };
  // What happened, on its way to the thread. Shared with the calls under way, which bound it: three
  // at most, and for the length of their timeouts those of a reign that has just been lost.
  struct Inbox {
    absl::Mutex mutex;
    SteadyCondVar news;  // for all below
    std::vector<std::pair<uint64_t, absl::StatusOr<EtcdAnswer>>> answers ABSL_GUARDED_BY(mutex);
    // Bounded by who raises: a reign writes one batch of durable state at a time.
    std::vector<Raise> raises ABSL_GUARDED_BY(mutex);
    bool is_stopping ABSL_GUARDED_BY(mutex) = false;
    bool is_closed ABSL_GUARDED_BY(mutex) = false;  // nobody looks into it any more
  };
  struct Mail {
    std::vector<std::pair<uint64_t, absl::StatusOr<EtcdAnswer>>> answers;
    std::vector<Raise> raises;
    bool is_stopping = false;
  };

  void Run();
  Mail TakeMail(absl::Time until);
  void CarryOut(ElectionOutput out);
  void Publish();
  // Answers those that are done, or cannot be any more.
  void SettleRaises();

  const std::unique_ptr<Election> election_;
  Etcd& etcd_;
  const Clock& clock_;
  const OnEvent on_event_;
  const std::shared_ptr<Inbox> inbox_;
  std::vector<Raise> raises_;  // that wait; of the thread

  mutable absl::Mutex mutex_;
  ElectionState state_ ABSL_GUARDED_BY(mutex_) = ElectionState::kLooking;
  Term term_ ABSL_GUARDED_BY(mutex_);
  std::string leader_ ABSL_GUARDED_BY(mutex_);
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);

  std::thread thread_;
};

}  // namespace moonpool::master
