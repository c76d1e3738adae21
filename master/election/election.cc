#include "master/election/election.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/error.h"
#include "common/status_macros.h"

namespace moonpool::master {
namespace {

using absl::StatusCode;

// Shares of a lease. Renewed five times in its length, it outlives four lost renewals.
constexpr int kRenewalsPerLease = 5;
constexpr int kTimeoutsPerLease = 2;
// Taken off the end: for clocks that do not run alike (a thousandth would be a broken one), and for
// the way of an answer from its last look at the deadline to the wire.
constexpr int kMarginsPerLease = 10;
constexpr absl::Duration kBackoffMin = absl::Milliseconds(100);
constexpr absl::Duration kBackoffMax = absl::Seconds(1);

constexpr absl::string_view kOutageHint =
    "bring etcd back; the masters go on by themselves as soon as it answers them";

absl::Status Unexpected() {
  return MakeError(StatusCode::kInternal, ErrorReason::kBadFrame,
                   "etcd's answer does not belong to the request");
}

}  // namespace

absl::string_view ElectionStateName(ElectionState state) {
  switch (state) {
    case ElectionState::kLooking: return "looking";
    case ElectionState::kGranting: return "granting";
    case ElectionState::kClaiming: return "claiming";
    case ElectionState::kFollowing: return "following";
    case ElectionState::kLeading: return "leading";
    case ElectionState::kResigned: return "resigned";
  }
  return "unknown";
}

Election::Election(ElectionOptions options, Random random, Leadership& leadership,
                   ElectionMetrics& metrics, Logger& logger)
    : options_(std::move(options)),
      candidate_(random.Next()),
      random_(random),
      metrics_(metrics),
      logger_(logger),
      leadership_(leadership) {
  MP_CHECK(options_.lease >= kElectionLeaseMin, "a lease of no use",
           absl::FormatDuration(options_.lease));
}

// --- Inputs.

ElectionOutput Election::Tick(absl::Time now) { return Finish({}, now); }

ElectionOutput Election::OnAnswer(uint64_t call, absl::StatusOr<EtcdAnswer> answer,
                                  absl::Time now) {
  ElectionOutput out;
  if (call != 0 && call == main_.call) {
    OnMain(answer, std::exchange(main_, {}).sent, now, out);
  } else if (call != 0 && call == keep_alive_.call) {
    OnKeepAlive(answer, std::exchange(keep_alive_, {}).sent, now, out);
  } else if (call != 0 && call == watch_.call) {
    watch_ = {};
    OnWatch(answer.status(), now);
  }
  return Finish(std::move(out), now);
}

ElectionOutput Election::RaiseTerm(Term at_least, absl::Time now) {
  // A term beyond all terms is garbled, and is not followed.
  const bool is_higher = at_least > std::max(term_, raise_to_) && at_least <= kTermMax;
  if (state_ == ElectionState::kLeading && is_higher) {
    raise_to_ = at_least;
    should_look_ = true;
  }
  return Finish({}, now);
}

ElectionOutput Election::Resign(absl::Time now) {
  ElectionOutput out;
  if (state_ == ElectionState::kResigned) return out;
  if (state_ == ElectionState::kLeading) {
    leadership_.End();
    out.events.push_back({.kind = ElectionEvent::Kind::kLost,
                          .term = term_,
                          .reign = reign_,
                          .why = MakeError(StatusCode::kCancelled, ErrorReason::kShuttingDown,
                                           "this master has resigned")});
    logger_.Info("resigned", {{"term", term_.value}});
    SetTerm(Term{});
  }
  main_ = keep_alive_ = watch_ = {};
  should_look_ = false;
  EnterState(ElectionState::kResigned);
  // A claim may still be on its way; without its lease it fails.
  if (lease_.id != 0) SendMain(Purpose::kRevoke, EtcdRevokeLease{lease_.id}, now, out);
  return out;
}

// --- Calls.

ElectionOutput Election::Finish(ElectionOutput out, absl::Time now) {
  NoteLapse(now);
  StartDueCalls(now, out);
  out.wake_at = WakeAt();
  return out;
}

void Election::Send(Slot& slot, EtcdRequest request, absl::Time now, ElectionOutput& out) {
  slot = {.call = ++calls_, .sent = now};
  out.calls.push_back({.id = slot.call,
                       .request = std::move(request),
                       .timeout = options_.lease / kTimeoutsPerLease});
}

void Election::SendMain(Purpose purpose, EtcdRequest request, absl::Time now, ElectionOutput& out) {
  purpose_ = purpose;
  Send(main_, std::move(request), now, out);
}

std::vector<EtcdOp> Election::ReadOps() const {
  return {EtcdGet{.key = options_.leader_key()}, EtcdGet{.key = options_.term_key()}};
}

bool Election::ShouldLook() const {
  return !main_.is_open() && (state_ == ElectionState::kLooking || should_look_);
}

// Not while a look is due or under way: it would report what that look is to find.
bool Election::ShouldWatch() const {
  const bool is_looking = should_look_ || (main_.is_open() && purpose_ == Purpose::kLook);
  return has_role() && !watch_.is_open() && !is_looking;
}

void Election::StartDueCalls(absl::Time now, ElectionOutput& out) {
  if (ShouldLook() && now >= main_at_) {
    should_look_ = false;
    SendMain(Purpose::kLook, EtcdTxn{.success = ReadOps()}, now, out);
  }
  if (state_ == ElectionState::kLeading && !keep_alive_.is_open() && now >= keep_alive_at_) {
    keep_alive_at_ = now + options_.lease / kRenewalsPerLease;
    Send(keep_alive_, EtcdKeepAlive{lease_.id}, now, out);
  }
  if (ShouldWatch() && now >= watch_at_) {
    Send(watch_, EtcdAwaitChange{.key = options_.leader_key(), .after_revision = view_.revision},
         now, out);
  }
}

absl::Time Election::WakeAt() const {
  absl::Time at = absl::InfiniteFuture();
  if (ShouldLook()) at = std::min(at, main_at_);
  if (ShouldWatch()) at = std::min(at, watch_at_);
  if (state_ == ElectionState::kLeading) {
    if (!keep_alive_.is_open()) at = std::min(at, keep_alive_at_);
    if (!is_lapsed_) at = std::min(at, leadership_.deadline());
  }
  return at;
}

// --- Answers.

void Election::OnMain(const absl::StatusOr<EtcdAnswer>& answer, absl::Time sent, absl::Time now,
                      ElectionOutput& out) {
  if (purpose_ == Purpose::kRevoke) {
    if (!answer.ok() && answer.status().code() != StatusCode::kNotFound) {
      logger_.Warn("the lease could not be given back, the next master leads when it has ended",
                   {{"lease", options_.lease}, {"why", Describe(answer.status())}});
    }
    return;
  }
  const auto* lease = answer.ok() ? std::get_if<EtcdLease>(&*answer) : nullptr;
  const auto* txn = answer.ok() ? std::get_if<EtcdTxnResult>(&*answer) : nullptr;
  const bool is_expected = purpose_ == Purpose::kGrant ? lease != nullptr : txn != nullptr;
  if (!is_expected) {
    // Etcd does not know the lease of this claim: the next one needs another.
    if (purpose_ == Purpose::kClaim && answer.status().code() == StatusCode::kNotFound) lease_ = {};
    Fail(answer.ok() ? Unexpected() : answer.status(), now);
    return LookAgain();
  }
  if (purpose_ == Purpose::kGrant) return OnGrant(*lease, sent, now, out);
  if (purpose_ == Purpose::kLook || !txn->succeeded) return OnView(*txn, now, out);
  // The key has our record in it now: of a reign that begins, or in a higher term.
  Succeed();
  view_.term = asked_term_;
  view_.term_changed_at = view_.revision = txn->revision;
  Lead(asked_term_, purpose_ == Purpose::kClaim ? Reign{txn->revision} : reign_, now, out);
}

void Election::OnKeepAlive(const absl::StatusOr<EtcdAnswer>& answer, absl::Time sent,
                           absl::Time now, ElectionOutput& out) {
  if (state_ != ElectionState::kLeading) return;
  if (answer.status().code() == StatusCode::kNotFound) {
    lease_ = {};
    return Lose(
        MakeError(StatusCode::kUnavailable, ErrorReason::kExpired, "the lease has ended in etcd",
                  {.hint = "this master was stopped, or etcd was out of its reach, for "
                           "longer than the lease"}),
        now, out);
  }
  const auto* lease = answer.ok() ? std::get_if<EtcdLease>(&*answer) : nullptr;
  if (lease == nullptr) {
    Fail(answer.ok() ? Unexpected() : answer.status(), now);
    keep_alive_at_ = now + Backoff();
    return;
  }
  metrics_.renewal_seconds.Observe(now - sent);
  NoteRenewal(*lease, sent);
  leadership_.Extend(LeaseDeadline());
  if (is_lapsed_ && now < LeaseDeadline()) {
    is_lapsed_ = false;
    logger_.Info("etcd has renewed the lease, this master leads on", {{"term", term_.value}});
  }
  Succeed();
}

void Election::OnWatch(const absl::Status& status, absl::Time now) {
  const bool is_answered = status.ok() || status.code() == StatusCode::kDeadlineExceeded;
  watch_at_ = is_answered ? now : now + options_.lease / kRenewalsPerLease;
  // A look follows in any case: the member that was asked may be cut off from the others. The look
  // asks them all, and reports what is wrong.
  should_look_ = has_role();
}

void Election::LookAgain() {
  if (has_role()) {
    should_look_ = true;
  } else {
    EnterState(ElectionState::kLooking);
  }
}

void Election::OnGrant(const EtcdLease& lease, absl::Time sent, absl::Time now,
                       ElectionOutput& out) {
  lease_ = {.id = lease.lease};
  NoteRenewal(lease, sent);
  if (lease.ttl > options_.lease && !std::exchange(has_warned_of_lease_, true)) {
    logger_.Warn(
        "etcd grants no lease as short as was set, when a leader dies the next one waits",
        {{"set", options_.lease},
         {"granted", lease.ttl},
         {"hint", "lower the election timeout of etcd, or set the lease to what it grants"}});
  }
  Claim(now, out);
}

// --- Failures.

void Election::NoteLapse(absl::Time now) {
  if (state_ != ElectionState::kLeading || is_lapsed_ || leadership_.IsLeaderAt(now)) return;
  is_lapsed_ = true;
  metrics_.silences.Increment();
  logger_.Error("this master answers nobody until etcd has renewed its lease",
                {{"term", term_.value},
                 {"lease", options_.lease},
                 {"why", Describe(last_failure_)},
                 {"hint", kOutageHint}});
}

void Election::Fail(const absl::Status& why, absl::Time now) {
  metrics_.failures.Increment();
  // Once per kind of cause: an etcd that is away for an hour is one line or two.
  const uint32_t kind = uint32_t{1} << (static_cast<uint32_t>(why.code()) % 32);
  if ((logged_failures_ & kind) == 0) {
    logged_failures_ |= kind;
    if (state_ == ElectionState::kLeading) {
      logger_.Error("etcd does not serve the leader, which falls silent at the end of its lease",
                    {{"term", term_.value},
                     {"leads_for", std::max(leadership_.deadline() - now, absl::ZeroDuration())},
                     {"why", Describe(why)},
                     {"hint", kOutageHint}});
    } else {
      logger_.Warn("etcd is of no use",
                   {{"state", ElectionStateName(state_)}, {"why", Describe(why)}});
    }
  }
  last_failure_ = why;
  ++failures_;
  main_at_ = now + Backoff();
}

void Election::Succeed() {
  failures_ = 0;
  logged_failures_ = 0;
  last_failure_ = absl::OkStatus();
}

absl::Duration Election::Backoff() {
  constexpr int kDoublingsMax = 10;
  const absl::Duration backoff = std::min(
      kBackoffMax, kBackoffMin * (int64_t{1} << std::clamp(failures_ - 1, 0, kDoublingsMax)));
  return backoff * (0.5 + 0.5 * random_.Uniform());
}

void Election::NoteRenewal(const EtcdLease& lease, absl::Time sent) {
  lease_.renewed = std::max(lease_.renewed, sent);
  // What etcd grants beyond what was asked for is not used: the operator's word bounds what a
  // leader that is cut off may still do.
  lease_.ttl = std::min(lease.ttl, options_.lease);
}

absl::Time Election::LeaseDeadline() const {
  return lease_.renewed + lease_.ttl - options_.lease / kMarginsPerLease;
}

}  // namespace moonpool::master
