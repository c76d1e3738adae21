// The reigns of one master, one after the other: who answers, and what the others are told.
//
//   Reigns reigns(Mastership::kElected, leadership, options);
//   reigns.OnElection(event, now);              // for each event of the election
//   if (auto next = reigns.to_begin()) ...      // load its state, make its core, then
//     reigns.Begin(next->reign, store, core, now);
//
//   ASSIGN_OR_RETURN(Admission in, reigns.Admit(now));             // a request is taken
//   in.handlers->Locate(request, now, done);
//   if (!MayAnswer(leadership, in.reign, now)) status = reigns.Refusal();   // it is answered
//
// A reign has a core, its handlers and a store of its own, and the next one begins with fresh ones.
// When it ends its calls and sessions end with NOT_LEADER. Its handlers stay for as long as a
// session or a write holds on to them, and answer nobody.
//
// A leader whose lease has run out is silent, though its reign may go on (R10): calls are refused,
// those that wait are ended, and nodes are told that they had better look whether another leads,
// and nothing else. A silence that lasts ends their sessions. Meanwhile no node counts as lost: it
// was not the nodes that went away.
//
// A master that is alone has one reign, whose lease never ends: kReignAlone.
//
// Part of the deterministic set, as the Handlers are, and externally serialised like them.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/types.h"
#include "master/core/core.h"
#include "master/election/election.h"
#include "master/election/leadership.h"
#include "master/handlers/handlers.h"
#include "master/handlers/options.h"
#include "master/meta/meta_store.h"

namespace moonpool::master {

enum class Mastership { kAlone, kElected };
inline constexpr Reign kReignAlone{1};

// Everything of one reign. Its death may take a while (as many objects as there are), and waits for
// the store: not under a lock.
struct ReignState {
  ReignState(Reign r, std::unique_ptr<MetaStore> s, std::unique_ptr<Core> c,
             const HandlersOptions& options, absl::Time now)
      : reign(r), store(std::move(s)), core(std::move(c)), handlers(*core, options, now) {}

  const Reign reign;
  const std::unique_ptr<MetaStore> store;  // nullptr: its core keeps no durable state
  const std::unique_ptr<Core> core;
  Handlers handlers;
  bool is_writing = false;
};

// The last look before an answer of something that was taken in this reign. Without a lock, for any
// thread.
bool MayAnswer(const Leadership& leadership, Reign reign, absl::Time now);

class Reigns {
 public:
  // Both are borrowed.
  Reigns(Mastership mastership, const Leadership& leadership, const HandlersOptions& options)
      : mastership_(mastership), leadership_(leadership), options_(options) {}
  Reigns(const Reigns&) = delete;
  Reigns& operator=(const Reigns&) = delete;

  // --- Reigns come and go.

  void OnElection(const ElectionEvent& event, absl::Time now);
  struct Beginning {
    Reign reign;
    Term term;
  };
  // The reign that the election has given this master, as long as it has not begun.
  const std::optional<Beginning>& to_begin() const { return to_begin_; }
  // False when that reign has ended meanwhile; then nothing is taken, for the caller to destroy
  // where no lock is held.
  bool Begin(Reign reign, std::unique_ptr<MetaStore>&& store, std::unique_ptr<Core>&& core,
             absl::Time now);
  // Ends everything with UNAVAILABLE/SHUTTING_DOWN, also what is still to come. Idempotent.
  void Shutdown(absl::Time now);

  // --- Requests.

  struct Admission {
    Handlers* handlers;
    Reign reign;
  };
  // FAILED_PRECONDITION/NOT_LEADER, or UNAVAILABLE/SHUTTING_DOWN.
  absl::StatusOr<Admission> Admit(absl::Time now) const;
  // What is said instead of an answer.
  absl::Status Refusal() const;
  // The handlers of a reign that has begun; there as long as it has sessions or serves, else
  // nullptr.
  Handlers* Find(Reign reign) const;

  // --- Durable state: one write of each reign at a time.

  struct DueWrite {
    Reign reign;
    MetaStore* store;  // lives until EndWrite
    MetaBatch batch;
  };
  // To be asked after all else here.
  std::optional<DueWrite> TakeWrite(absl::Time now);
  void OnWritten(Reign reign, const absl::Status& status, absl::Time now);
  // After OnWritten, by who writes: the next one, unless it is not to go on.
  std::optional<DueWrite> EndWrite(Reign reign, bool goes_on, absl::Time now);
  bool is_writing() const;

  // --- Time.

  // Before all else that is done at that time: the lease may have run out since the last.
  void Observe(absl::Time now);
  void Tick(absl::Time now);
  absl::Time NextWakeup() const;

  // Reigns that have ended, and that nobody holds on to any more: for the caller to destroy.
  std::vector<std::unique_ptr<ReignState>> TakeEnded();
  bool has_ended() const;

  // The reign that has begun and has not ended; it may be silent. nullptr: there is none.
  const ReignState* present() const { return present_.get(); }
  // Who leads instead; "" = nobody is known to.
  const std::string& leader() const { return leader_; }
  // STALE_TERM from the store of a master that is alone: it serves nobody until it is restarted.
  bool is_deposed() const { return present_ != nullptr && present_->handlers.is_deposed(); }

 private:
  void EndPresent(absl::Time now);
  void WatchSilence(absl::Time now);
  ReignState* FindState(Reign reign) const;
  std::optional<DueWrite> TakeWriteOf(ReignState& state, absl::Time now) const;

  const Mastership mastership_;
  const Leadership& leadership_;
  const HandlersOptions options_;

  std::optional<Beginning> to_begin_;
  std::unique_ptr<ReignState> present_;
  std::vector<std::unique_ptr<ReignState>> ended_;  // until they are taken
  std::string leader_;
  absl::Time silent_since_ = absl::InfiniteFuture();
  bool has_let_nodes_go_ = false;
  bool is_shut_down_ = false;
};

}  // namespace moonpool::master
