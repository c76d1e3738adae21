// The roles of a master, and how it comes by them: what the keys say, and what follows from it.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/error.h"
#include "common/status_macros.h"
#include "master/election/election.h"

namespace moonpool::master {
namespace {

using absl::StatusCode;

// A lease that is older is not worth a claim: its reign would begin with its end in sight.
constexpr int kFreshPerLease = 2;
// Between two attempts of which the first has just lost a race.
constexpr absl::Duration kRaceBackoff = absl::Milliseconds(100);

}  // namespace

absl::StatusOr<Election::View> Election::ReadView(const EtcdTxnResult& result) const {
  if (result.ranges.size() != 2 || result.ranges[0].records.size() > 1 ||
      result.ranges[1].records.size() > 1) {
    return MakeError(StatusCode::kInternal, ErrorReason::kBadFrame,
                     "etcd has not answered for both keys of the election");
  }
  View view{.leader = {}, .term = {}, .term_changed_at = 0, .revision = result.revision};
  if (!result.ranges[0].records.empty()) view.leader = result.ranges[0].records[0];
  if (!result.ranges[1].records.empty()) {
    const EtcdKeyValue& term = result.ranges[1].records[0];
    ASSIGN_OR_RETURN(view.term, ParseTerm(term.value));
    view.term_changed_at = term.mod_revision;
  }
  return view;
}

void Election::OnView(const EtcdTxnResult& result, absl::Time now, ElectionOutput& out) {
  auto view = ReadView(result);
  if (!view.ok()) {
    Fail(view.status(), now);
    return LookAgain();
  }
  view_ = *std::move(view);
  should_look_ = false;
  absl::StatusOr<LeaderRecord> record = absl::NotFoundError("no leader");
  if (view_.leader.has_value()) {
    record = ParseLeaderRecord(view_.leader->value);
    record.ok() ? Succeed() : Fail(record.status(), now);
  }
  if (record.ok() && IsOurs(*record, view_.leader->lease)) {
    return Lead(record->term, Reign{view_.leader->create_revision}, now, out);
  }
  if (state_ == ElectionState::kLeading) {
    Lose(MakeError(
             StatusCode::kUnavailable, ErrorReason::kStaleTerm,
             view_.leader.has_value() ? "another master owns the leader key"
                                      : "the leader key was deleted from etcd",
             {.hint = "its lease has ended in etcd, as when this process or etcd was stopped for "
                      "a while; or somebody else writes below the prefix of the election"}),
         now, out);
  }
  if (!view_.leader.has_value()) {
    Follow("", out);
    watch_ = {};
    // Who has just lost a race and finds nobody ahead does not run on the spot.
    if (purpose_ == Purpose::kClaim) {
      main_at_ = now + kRaceBackoff * random_.Uniform();
      return EnterState(ElectionState::kLooking);
    }
    const bool is_fresh = lease_.id != 0 && now < lease_.renewed + options_.lease / kFreshPerLease;
    if (is_fresh) return Claim(now, out);
    lease_ = {};
    EnterState(ElectionState::kGranting);
    return SendMain(Purpose::kGrant, EtcdGrantLease{options_.lease}, now, out);
  }
  // Ours, of a lease that was given up: it ends soon, and leads nobody.
  const bool is_leading = record.ok() && record->candidate != candidate_;
  Follow(is_leading ? record->address : "", out);
  EnterState(ElectionState::kFollowing);
}

void Election::Claim(absl::Time now, ElectionOutput& out) {
  const Term term{view_.term.value + 1};
  if (term > kTermMax) {
    Fail(MakeError(StatusCode::kOutOfRange, ErrorReason::kLimitReached,
                   absl::StrCat("no term is left after ", view_.term.value),
                   {.hint = absl::StrCat("somebody has written into ", options_.term_key(),
                                         " in etcd: restore it from the masters' logs")}),
         now);
    return EnterState(ElectionState::kLooking);
  }
  EnterState(ElectionState::kClaiming);
  AskForKey(Purpose::kClaim, term, Reign{}, now, out);
}

void Election::AskForKey(Purpose purpose, Term term, Reign owner, absl::Time now,
                         ElectionOutput& out) {
  asked_term_ = term;
  const LeaderRecord record{.term = term, .candidate = candidate_, .address = options_.address};
  SendMain(purpose,
           EtcdTxn{.compares = {EtcdCompare::CreatedAt(options_.leader_key(), owner.value),
                                EtcdCompare::ChangedAt(options_.term_key(), view_.term_changed_at)},
                   .success = {EtcdPut{.key = options_.leader_key(),
                                       .value = FormatLeaderRecord(record),
                                       .lease = lease_.id},
                               EtcdPut{.key = options_.term_key(), .value = FormatTerm(term)}},
                   .failure = ReadOps()},
           now, out);
}

bool Election::IsOurs(const LeaderRecord& record, int64_t lease) const {
  return record.candidate == candidate_ && lease_.id != 0 && lease == lease_.id;
}

void Election::Lead(Term term, Reign reign, absl::Time now, ElectionOutput& out) {
  if (state_ == ElectionState::kLeading && reign != reign_) {
    Lose(MakeError(StatusCode::kUnavailable, ErrorReason::kStaleTerm,
                   "the leader key was made anew in etcd"),
         now, out);
  }
  const bool is_new = state_ != ElectionState::kLeading;
  if (is_new) {
    reign_ = reign;
    raise_to_ = Term{};
    should_look_ = false;
    is_lapsed_ = false;
    leader_.clear();
    leadership_.Begin(reign, LeaseDeadline());
    keep_alive_at_ = now;
    watch_ = {};
    metrics_.reigns.Increment();
    EnterState(ElectionState::kLeading);
  }
  if (is_new || term > term_) {
    SetTerm(term);
    knows_role_ = true;
    out.events.push_back({.kind = ElectionEvent::Kind::kLeader, .term = term, .reign = reign_});
    logger_.Info("this master leads", {{"term", term.value}, {"reign", reign_.value}});
  }
  if (raise_to_ <= term_ || main_.is_open()) return;
  if (purpose_ == Purpose::kRaise) {  // somebody was faster: no running on the spot
    should_look_ = true;
    main_at_ = now + kRaceBackoff;
  } else {
    AskForKey(Purpose::kRaise, std::max(raise_to_, view_.term), reign_, now, out);
  }
}

void Election::Follow(std::string leader, ElectionOutput& out) {
  if (knows_role_ && leader == leader_) return;
  knows_role_ = true;
  leader_ = std::move(leader);
  out.events.push_back({.kind = ElectionEvent::Kind::kFollower, .leader = leader_});
  if (!leader_.empty()) logger_.Info("another master leads", {{"leader", leader_}});
}

void Election::Lose(const absl::Status& why, absl::Time now, ElectionOutput& out) {
  leadership_.End();
  out.events.push_back(
      {.kind = ElectionEvent::Kind::kLost, .term = term_, .reign = reign_, .why = why});
  logger_.Error("this master has lost the lead",
                {{"term", term_.value}, {"address", options_.address}, {"why", Describe(why)}});
  metrics_.losses.Increment();
  main_ = keep_alive_ = watch_ = {};
  main_at_ = now;
  knows_role_ = false;
  is_lapsed_ = false;
  should_look_ = false;
  SetTerm(Term{});
  reign_ = {};
  EnterState(ElectionState::kLooking);
}

void Election::EnterState(ElectionState state) {
  state_ = state;
  metrics_.state.Set(static_cast<double>(state));
}

void Election::SetTerm(Term term) {
  term_ = term;
  metrics_.term.Set(term.value);
}

}  // namespace moonpool::master
