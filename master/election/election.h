// Which of the masters leads, as a state machine: no thread, clock or gRPC.
//
//            no leader           a lease           the key is ours
//   looking -----------> granting -----> claiming -----------------> leading
//    ^  ^ |                 |              |  |                         |
//    |  | | there is one    |   another    |  |  outcome unknown        | the lease or the key
//    |  | v                 |   was faster |  v                         | is gone
//    |  following <---------+--------------+ looking                    |
//    +----------------------------------------------------------------- +
//
// The leader is who owns the key PREFIX/leader, which lives as long as its owner's lease. The claim
// puts it, if there is none, and counts PREFIX/term up in the same transaction: so each term has
// one leader, and a later leader has a greater one. A claim whose answer was lost is looked up
// again; what is in the key, and bound to our lease, is ours.
//
// The leader renews its lease all the time. It counts from the moment a renewal was sent, etcd from
// a later one, the moment it came; so what is in leadership() ends before etcd lets anybody else
// in. While etcd is away the leader falls silent, and when it is back and has the lease still,
// nobody else has led and the same reign goes on. What the leader owns it also watches: whoever
// deletes the key by hand ends the reign.
//
// Whoever drives it carries out the calls that are returned, and passes each outcome in, however
// late:
//
//   Election election(options, Random(seed), leadership, metrics, logger);
//   ElectionOutput out = election.Tick(clock.Now());
//   for (ElectionCall& call : out.calls) etcd.Call(call.request, call.timeout, ...);  // OnAnswer
//   for (ElectionEvent& event : out.events) ...
//   ... until out.wake_at, or an answer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/log.h"
#include "common/random.h"
#include "common/types.h"
#include "master/election/election_metrics.h"
#include "master/election/election_options.h"
#include "master/election/leader_record.h"
#include "master/election/leadership.h"
#include "master/etcd/etcd.h"

namespace moonpool::master {

enum class ElectionState { kLooking, kGranting, kClaiming, kFollowing, kLeading, kResigned };
absl::string_view ElectionStateName(ElectionState state);  // "looking", ...

struct ElectionEvent {
  enum class Kind {
    kLeader,    // this master leads, in `term`; again, with the same reign, when it was raised
    kFollower,  // another does, at `leader`; "" = nobody is known to, for now
    kLost,      // this master's reign is over; `why`
  };
  Kind kind;
  Term term = {};
  Reign reign = {};
  std::string leader = {};
  absl::Status why = {};
};

struct ElectionCall {
  uint64_t id = 0;
  EtcdRequest request;
  absl::Duration timeout;
};

struct ElectionOutput {
  std::vector<ElectionCall> calls;
  std::vector<ElectionEvent> events;            // in their order
  absl::Time wake_at = absl::InfiniteFuture();  // Tick no later
};

// Used by one thread at a time. Borrows all but the options; nobody else writes to `leadership`,
// which any thread may read. `now` never goes back.
class Election {
 public:
  Election(ElectionOptions options, Random random, Leadership& leadership, ElectionMetrics& metrics,
           Logger& logger);

  ElectionOutput Tick(absl::Time now);
  // Of a call that is not under way (any more) it is ignored.
  ElectionOutput OnAnswer(uint64_t call, absl::StatusOr<EtcdAnswer> answer, absl::Time now);
  // Somebody has seen a higher term: this leader's is to become at least this one. An event says
  // when it is. Of no effect on who does not lead.
  ElectionOutput RaiseTerm(Term at_least, absl::Time now);
  // Leads no more, at once, and gives back the lease, so that another one may lead at once, too.
  ElectionOutput Resign(absl::Time now);

  ElectionState state() const { return state_; }
  // Resign was called and nothing is left to be done.
  bool has_resigned() const { return state_ == ElectionState::kResigned && !main_.is_open(); }
  Term term() const { return term_; }                    // 0 when not leading
  const std::string& leader() const { return leader_; }  // of the last kFollower
  // Why etcd was of no use the last time; OK when it was.
  const absl::Status& last_failure() const { return last_failure_; }
  const Leadership& leadership() const { return leadership_; }

 private:
  enum class Purpose { kLook, kGrant, kClaim, kRaise, kRevoke };
  // At most one call of a sort is under way.
  struct Slot {
    uint64_t call = 0;
    absl::Time sent;
    bool is_open() const { return call != 0; }
  };
  struct Lease {
    int64_t id = 0;
    absl::Time renewed = absl::InfinitePast();  // when the last grant or renewal was sent
    absl::Duration ttl = absl::ZeroDuration();
  };
  // What the keys held at one revision.
  struct View {
    std::optional<EtcdKeyValue> leader;
    Term term;  // 0: no leader has ever been
    int64_t term_changed_at = 0;
    int64_t revision = 0;
  };

  void Send(Slot& slot, EtcdRequest request, absl::Time now, ElectionOutput& out);
  void SendMain(Purpose purpose, EtcdRequest request, absl::Time now, ElectionOutput& out);
  std::vector<EtcdOp> ReadOps() const;
  ElectionOutput Finish(ElectionOutput out, absl::Time now);
  bool has_role() const {
    return state_ == ElectionState::kLeading || state_ == ElectionState::kFollowing;
  }
  bool ShouldLook() const;
  bool ShouldWatch() const;
  void LookAgain();
  void StartDueCalls(absl::Time now, ElectionOutput& out);
  absl::Time WakeAt() const;

  void OnMain(const absl::StatusOr<EtcdAnswer>& answer, absl::Time sent, absl::Time now,
              ElectionOutput& out);
  void OnKeepAlive(const absl::StatusOr<EtcdAnswer>& answer, absl::Time sent, absl::Time now,
                   ElectionOutput& out);
  void OnWatch(const absl::Status& status, absl::Time now);
  void OnGrant(const EtcdLease& lease, absl::Time sent, absl::Time now, ElectionOutput& out);
  absl::StatusOr<View> ReadView(const EtcdTxnResult& result) const;
  void OnView(const EtcdTxnResult& result, absl::Time now, ElectionOutput& out);
  void Claim(absl::Time now, ElectionOutput& out);
  // Puts our record into the leader key that `owner` owns, and counts the term up to `term`.
  void AskForKey(Purpose purpose, Term term, Reign owner, absl::Time now, ElectionOutput& out);

  bool IsOurs(const LeaderRecord& record, int64_t lease) const;
  void Lead(Term term, Reign reign, absl::Time now, ElectionOutput& out);
  void Follow(std::string leader, ElectionOutput& out);
  void Lose(const absl::Status& why, absl::Time now, ElectionOutput& out);
  void NoteLapse(absl::Time now);
  void EnterState(ElectionState state);
  void SetTerm(Term term);

  // A call failed; what depends on it is tried again, later with each failure.
  void Fail(const absl::Status& why, absl::Time now);
  // A role is had or kept. What only leads there is no success: who may read but not write would
  // begin anew for ever.
  void Succeed();
  void NoteRenewal(const EtcdLease& lease, absl::Time sent);
  absl::Duration Backoff();
  absl::Time LeaseDeadline() const;

  const ElectionOptions options_;
  const uint64_t candidate_;
  Random random_;
  ElectionMetrics& metrics_;
  Logger& logger_;
  Leadership& leadership_;

  ElectionState state_ = ElectionState::kLooking;
  uint64_t calls_ = 0;
  Slot main_;
  Purpose purpose_ = Purpose::kLook;  // of main_
  Slot keep_alive_;
  Slot watch_;
  absl::Time main_at_ = absl::InfinitePast();  // no look or the like before it
  absl::Time keep_alive_at_;
  absl::Time watch_at_ = absl::InfinitePast();
  bool should_look_ = false;  // in a role: something may have happened to the key

  View view_;  // the newest
  Lease lease_;
  Term term_;
  Reign reign_;
  Term raise_to_;
  Term asked_term_;  // of the newest claim or raise
  std::string leader_;
  bool knows_role_ = false;  // an event has said who leads

  int failures_ = 0;              // in a row
  uint32_t logged_failures_ = 0;  // a bit per status code, since the last success
  absl::Status last_failure_;
  bool is_lapsed_ = false;  // leads, but may not say so
  bool has_warned_of_lease_ = false;
};

}  // namespace moonpool::master
