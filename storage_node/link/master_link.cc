#include "storage_node/link/master_link.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "common/error.h"
#include "common/guard.h"
#include "common/rpc/extent_proto.h"
#include "common/rpc/status_proto.h"
#include "common/status_macros.h"
#include "common/version.h"
#include "storage_node/link/copy_order.h"
#include "storage_node/link/sealed_part.h"

namespace moonpool::storage_node {
namespace {

using absl::StatusCode;

// What a master may ask for. Outside of it the node keeps its own idea of what is reasonable.
constexpr absl::Duration kHeartbeatIntervalDefault = absl::Seconds(1);
constexpr absl::Duration kHeartbeatIntervalMin = absl::Milliseconds(10);
constexpr absl::Duration kHeartbeatIntervalMax = absl::Minutes(1);
constexpr absl::Duration kSessionTimeoutMax = absl::Minutes(10);
constexpr absl::Duration kJournalWarnings = absl::Minutes(1);
constexpr int kHeartbeatsPerTimeoutMin = 2;
constexpr absl::Duration kCopyTimeoutMax = absl::Minutes(10);
constexpr uint32_t kPartsLostMinor = 3;

absl::Duration FromWireMs(uint64_t ms, absl::Duration max) {
  return ms > static_cast<uint64_t>(absl::ToInt64Milliseconds(max))
             ? max
             : absl::Milliseconds(static_cast<int64_t>(ms));
}

absl::Status BadMessage(absl::string_view what) {
  return MakeError(StatusCode::kUnavailable, ErrorReason::kBadFrame,
                   absl::StrCat("the master broke the protocol: ", what));
}

absl::Status TimedOut(absl::string_view what, absl::Duration after) {
  return MakeError(StatusCode::kUnavailable, ErrorReason::kPeerUnreachable,
                   absl::StrCat(what, " within ", absl::FormatDuration(after)));
}

// What a master of that term says is not for this node any more.
bool IsOlder(uint32_t term, Term newest) { return GuardIsOn(Guard::kTerm) && term < newest.value; }

absl::Status OlderTerm(uint32_t term, Term newest) {
  return MakeError(StatusCode::kFailedPrecondition, ErrorReason::kStaleTerm,
                   absl::StrCat("term ", term, " is over: this node has seen ", newest.value));
}

}  // namespace

absl::string_view LinkStateName(LinkState state) {
  switch (state) {
    case LinkState::kWaiting: return "waiting";
    case LinkState::kConnecting: return "connecting";
    case LinkState::kRegistering: return "registering";
    case LinkState::kUploading: return "uploading";
    case LinkState::kLive: return "live";
  }
  return "unknown";
}

MasterLink::MasterLink(NodeIdentity identity, MasterLinkOptions options, Dependencies dependencies,
                       Random random)
    : identity_(std::move(identity)),
      options_(std::move(options)),
      index_(dependencies.index),
      copies_(dependencies.copies),
      metrics_(dependencies.metrics),
      logger_(dependencies.logger),
      choice_(options_.masters,
              {.pause_min = options_.backoff_min,
               .pause_max = options_.backoff_max,
               .election_pause_max = std::min(options_.backoff_max, options_.election_backoff_max),
               .long_election_pause_max =
                   std::min(options_.backoff_max, options_.long_election_backoff_max),
               .patience_max = options_.register_timeout},
              Random(random.Next())) {}

void MasterLink::EnterState(LinkState state) {
  state_ = state;
  metrics_.state.Set(static_cast<double>(state));
}

LinkOutput MasterLink::Tick(absl::Time now, bool has_room) {
  LinkOutput out;
  if (has_session()) {
    TickSession(now, has_room, out);
  } else if (now >= deadline_) {
    switch (state_) {
      case LinkState::kConnecting: Drop(TimedOut("no connection", patience_), now, out); break;
      case LinkState::kRegistering:
        Drop(TimedOut("no answer to the registration", patience_), now, out);
        break;
      default: Connect(now, out);
    }
  }
  out.wake_at = WakeAt(now, has_room);
  return out;
}

void MasterLink::Connect(absl::Time now, LinkOutput& out) {
  const LeaderChoice::Step step = choice_.Next(now);
  master_ = step.address;
  patience_ = std::min(step.patience, options_.connect_timeout);
  out.connect = master_;
  EnterState(LinkState::kConnecting);
  deadline_ = now + patience_;
}

v1::NodeMessage MasterLink::Registration() const {
  v1::NodeMessage result;
  v1::Register& message = *result.mutable_register_();
  message.mutable_version()->set_major(kWireMajor);
  message.mutable_version()->set_minor(kWireMinor);
  message.set_name(identity_.name);
  message.set_incarnation(identity_.incarnation.value);
  message.set_host_id(identity_.host_id);
  message.set_rack(identity_.rack);
  message.set_tcp_address(identity_.tcp_address);
  message.set_shm_path(identity_.shm_path);
  for (size_t i = 0; i < index_.segment_count(); ++i) {
    v1::Segment& segment = *message.add_segments();
    segment.set_segment(index_.segment(i).id.value);
    segment.set_medium(index_.segment(i).medium);
    segment.set_capacity_bytes(index_.segment(i).capacity_bytes);
  }
  message.set_highest_term_seen(index_.newest_term().value);
  return result;
}

LinkOutput MasterLink::OnConnected(absl::Time now) {
  LinkOutput out;
  if (state_ == LinkState::kConnecting) {
    out.send.push_back(Registration());
    EnterState(LinkState::kRegistering);
    patience_ = std::min(choice_.Next(now).patience, options_.register_timeout);
    deadline_ = now + patience_;
  }
  out.wake_at = WakeAt(now, true);
  return out;
}

LinkOutput MasterLink::OnMessage(const v1::MasterMessage& message, absl::Time now) {
  LinkOutput out;
  if (state_ < LinkState::kRegistering) {  // a leftover of a connection that was dropped
    out.wake_at = WakeAt(now, true);
    return out;
  }
  switch (message.message_case()) {
    case v1::MasterMessage::kRegistered: OnRegistered(message.registered(), now, out); break;
    case v1::MasterMessage::kRefused: {
      absl::Status why = StatusFromProto(message.refused().status());
      if (why.ok()) why = BadMessage("refused without a reason");
      Drop(Annotate(why, "the master refused this node"), now, out);
      break;
    }
    case v1::MasterMessage::kCommand: OnCommand(message.command(), now, out); break;
    case v1::MasterMessage::kHeartbeatAck: OnHeartbeatAck(message.heartbeat_ack(), now, out); break;
    case v1::MasterMessage::kSilence: has_been_told_ = has_session(); break;
    case v1::MasterMessage::MESSAGE_NOT_SET: break;  // something newer; not for us
  }
  out.wake_at = WakeAt(now, true);
  return out;
}

LinkOutput MasterLink::OnDisconnected(const absl::Status& why, absl::Time now) {
  LinkOutput out;
  if (state_ != LinkState::kWaiting) {
    EndSearch(out);
    ScheduleRetry(why.ok() ? absl::UnavailableError("the master ended the stream") : why, now);
  }
  out.wake_at = WakeAt(now, true);
  return out;
}

absl::Status MasterLink::Check(const v1::Registered& registered) const {
  if (registered.version().major() != kWireMajor) {
    return MakeError(StatusCode::kFailedPrecondition, ErrorReason::kPeerVersion,
                     absl::StrCat("the master speaks version ", registered.version().major(),
                                  ", this node ", kWireMajor),
                     {.hint = "upgrade the older one"});
  }
  if (registered.term() == 0 || Term{registered.term()} > kTermMax) {
    return BadMessage("a session without a possible term");
  }
  if (IsOlder(registered.term(), index_.newest_term())) {
    return OlderTerm(registered.term(), index_.newest_term());
  }
  if (Generation{registered.newest_generation()}.term() > Term{registered.term()}) {
    return BadMessage("grants of a term to come");
  }
  return absl::OkStatus();
}

void MasterLink::OnRegistered(const v1::Registered& registered, absl::Time now, LinkOutput& out) {
  if (state_ != LinkState::kRegistering) {
    return Drop(BadMessage("registered a second time"), now, out);
  }
  if (const absl::Status bad = Check(registered); !bad.ok()) return Drop(bad, now, out);
  copies_.EndSession();  // one that is left for another leader ends like any
  takes_lost_parts_ = registered.version().minor() >= kPartsLostMinor;
  // First the term, then the look at what is sealed: no older seal can slip in between.
  term_ = Term{registered.term()};
  RaiseTerm(term_);
  index_.SetFloor(Generation{registered.newest_generation()});
  metrics_.term.Set(term_.value);
  metrics_.sessions.Increment();

  heartbeat_interval_ =
      registered.heartbeat_interval_ms() == 0
          ? kHeartbeatIntervalDefault
          : std::max(kHeartbeatIntervalMin,
                     FromWireMs(registered.heartbeat_interval_ms(), kHeartbeatIntervalMax));
  session_timeout_ = std::max(FromWireMs(registered.session_timeout_ms(), kSessionTimeoutMax),
                              heartbeat_interval_ * kHeartbeatsPerTimeoutMin);
  heartbeats_sent_ = 0;
  heartbeats_acked_ = 0;
  next_heartbeat_ = now;
  last_heard_ = now;
  has_been_told_ = false;
  logger_.Info("registered", {{"master", master_},
                              {"term", term_.value},
                              {"node_id", registered.node_id()},
                              {"heartbeat", heartbeat_interval_},
                              {"session_timeout", session_timeout_}});
  StartInventory();
}

void MasterLink::OnCommand(const v1::Command& command, absl::Time now, LinkOutput& out) {
  if (!has_session()) return Drop(BadMessage("a command before the registration"), now, out);
  if (Term{command.term()} > kTermMax) return Drop(BadMessage("an impossible term"), now, out);
  last_heard_ = now;  // acknowledgements may stand in line behind it
  metrics_.commands.Increment();
  const std::optional<absl::Status> status = Execute(command, now);
  if (!status.has_value()) return;
  v1::CommandResult& result = *out.send.emplace_back().mutable_command_result();
  result.set_command_id(command.command_id());
  StatusToProto(*status, result.mutable_status());
}

std::optional<absl::Status> MasterLink::Execute(const v1::Command& command, absl::Time now) {
  if (IsOlder(command.term(), index_.newest_term())) {
    metrics_.refused_commands.Increment();
    return OlderTerm(command.term(), index_.newest_term());
  }
  // A leader may raise its term while sessions are open.
  RaiseTerm(Term{command.term()});
  absl::Status status;
  switch (command.command_case()) {
    case v1::Command::kFree: status = ExecuteFree(command.free(), Term{command.term()}); break;
    case v1::Command::kCopy:
      status = StartCopy(command, now);
      if (status.ok()) return std::nullopt;
      break;
    case v1::Command::COMMAND_NOT_SET:
      status = MakeError(StatusCode::kUnimplemented, ErrorReason::kPeerVersion,
                         "this node does not know the command", {.hint = "upgrade the node"});
  }
  if (!status.ok()) metrics_.refused_commands.Increment();
  return status;
}

absl::Status MasterLink::ExecuteFree(const v1::Free& free, Term term) {
  const GrantWindow window{.oldest_open = Generation{free.oldest_open()},
                           .newest = Generation{free.newest()}};
  if (window.newest.term() > term || window.oldest_open.value > window.newest.value + 1) {
    return MakeError(StatusCode::kInvalidArgument, ErrorReason::kBadArgument,
                     absl::StrCat("grants from ", ToString(window.oldest_open), " to ",
                                  ToString(window.newest), " are not those of term ", term.value));
  }
  std::vector<Generation> generations;
  generations.reserve(static_cast<size_t>(free.generations_size()));
  for (const uint64_t value : free.generations()) generations.push_back(Generation{value});
  metrics_.freed_parts.Increment(index_.Free(generations, window));
  copies_.Cancel(generations);
  return absl::OkStatus();
}

// Done by somebody who may wait for another node.
absl::Status MasterLink::StartCopy(const v1::Command& command, absl::Time now) {
  ASSIGN_OR_RETURN(CopyOrder order, CopyOrderFromProto(command.copy()));
  if (order.claim.term() > Term{command.term()}) {
    return MakeError(
        StatusCode::kInvalidArgument, ErrorReason::kBadArgument,
        absl::StrCat("claim ", ToString(order.claim), " is of a term after ", command.term()));
  }
  const absl::Duration timeout = FromWireMs(command.copy().timeout_ms(), kCopyTimeoutMax);
  return copies_.Add(command.command_id(), std::move(order), now + timeout);
}

// What is claimed under an older term cannot be sealed any more.
void MasterLink::RaiseTerm(Term term) {
  if (term > index_.newest_term()) copies_.CancelBefore(term);
  index_.NoteTerm(term);
}

void MasterLink::OnHeartbeatAck(const v1::HeartbeatAck& ack, absl::Time now, LinkOutput& out) {
  if (!has_session()) return;
  if (Term{ack.term()} > kTermMax) return Drop(BadMessage("an impossible term"), now, out);
  if (Term{ack.term()} > term_) {  // raised by another node that had seen a higher one
    term_ = Term{ack.term()};
    RaiseTerm(term_);
    metrics_.term.Set(term_.value);
  }
  if (ack.sequence() <= heartbeats_acked_ || ack.sequence() > heartbeats_sent_) return;
  heartbeats_acked_ = ack.sequence();
  last_heard_ = now;
  has_been_told_ = false;
  // A master that takes inventories and hangs up must not get one after the other: what it was sent
  // before it had one proves nothing, however late it answers.
  if (state_ == LinkState::kLive && ack.sequence() > heartbeats_before_live_) {
    choice_.OnLeader();
    logged_.clear();
  }
}

void MasterLink::TickSession(absl::Time now, bool has_room, LinkOutput& out) {
  if (now >= last_heard_ + session_timeout_) {
    return Drop(TimedOut("no heartbeat was answered", session_timeout_), now, out);
  }
  if (now >= next_heartbeat_) {
    SendHeartbeat(now, out);
  }
  TickSearch(now, out);
  if (!has_room) return;
  SendCopyResults(out);
  if (state_ == LinkState::kUploading) return SendInventorySlice(out);
  if (const absl::Status why = WhyListAnew(); !why.ok()) {
    // A session has one inventory, so the master gets what is missing by a new session.
    metrics_.report_overflows.Increment();
    return Drop(why, now, out);
  }
  SendLostParts(out);
  SendDueReports(now, out);
}

void MasterLink::SendHeartbeat(absl::Time now, LinkOutput& out) {
  v1::Heartbeat& heartbeat = *out.send.emplace_back().mutable_heartbeat();
  heartbeat.set_sequence(++heartbeats_sent_);
  next_heartbeat_ = now + heartbeat_interval_;
  const JournalRoom room = index_.journal_room();
  const bool is_full = !room.why.ok();
  if (is_full) heartbeat.set_parts_max(room.parts_max);
  metrics_.journal_full.Set(is_full ? 1 : 0);
  if (is_full && now >= warn_of_journal_) {
    logger_.Warn(
        "the journal cannot grow: the master evicts for what is to come, or puts it elsewhere",
        {{"parts_max", room.parts_max}, {"why", Describe(room.why)}});
    warn_of_journal_ = now + kJournalWarnings;
  } else if (!is_full && warn_of_journal_ > absl::InfinitePast()) {
    logger_.Info("the journal has room again", {});
    warn_of_journal_ = absl::InfinitePast();
  }
}

absl::Status MasterLink::WhyListAnew() const {
  if (index_.seal_reports().has_overflowed() || index_.lost_parts().has_overflowed()) {
    return MakeError(StatusCode::kResourceExhausted, ErrorReason::kLimitReached,
                     "more seals or lost parts wait to be reported than are remembered");
  }
  if (!takes_lost_parts_ && index_.lost_parts().size() > 0) {
    return MakeError(StatusCode::kFailedPrecondition, ErrorReason::kPeerVersion,
                     "the master learns of lost parts only from an inventory",
                     {.hint = "upgrade the master"});
  }
  return absl::OkStatus();
}

void MasterLink::StartInventory() {
  // Before the first look: what is sealed from now on is reported, what was sealed is found.
  index_.seal_reports().Clear();
  index_.lost_parts().Clear();
  reports_due_ = absl::InfiniteFuture();
  cursor_ = {};
  EnterState(LinkState::kUploading);
}

void MasterLink::SendInventorySlice(LinkOutput& out) {
  InventorySlice slice = index_.NextInventory(cursor_, options_.parts_per_message);
  cursor_ = slice.next;
  v1::Inventory& message = *out.send.emplace_back().mutable_inventory();
  for (const transport::SealRecord& record : slice.records) {
    SealedPartToProto(record, message.add_parts());
  }
  message.set_complete(slice.is_last);
  metrics_.inventory_parts.Increment(slice.records.size());
  if (!slice.is_last) return;
  metrics_.inventories.Increment();
  last_failure_ = absl::OkStatus();
  heartbeats_before_live_ = heartbeats_sent_;
  EnterState(LinkState::kLive);
  logger_.Info("inventory is uploaded", {{"master", master_}, {"term", term_.value}});
}

void MasterLink::SendDueReports(absl::Time now, LinkOutput& out) {
  const size_t pending = index_.seal_reports().size();
  if (pending == 0) return;
  if (reports_due_ == absl::InfiniteFuture()) reports_due_ = now + options_.seal_report_delay;
  if (now < reports_due_ && pending < options_.parts_per_message) return;
  v1::SealReport report;
  for (const transport::SealRecord& record : index_.TakeSealReports(options_.parts_per_message)) {
    SealedPartToProto(record, report.add_parts());
  }
  reports_due_ = pending > options_.parts_per_message ? now : absl::InfiniteFuture();
  if (report.parts().empty()) return;  // superseded or freed since
  metrics_.reported_parts.Increment(static_cast<uint64_t>(report.parts_size()));
  *out.send.emplace_back().mutable_seal_report() = std::move(report);
}

// One message at a time, ahead of the seals that are due with it. What is brought back to the same
// place is told later by itself: the master orders that once it knows of the loss.
void MasterLink::SendLostParts(LinkOutput& out) {
  const std::vector<PartAt> lost = index_.lost_parts().Take(options_.parts_per_message);
  if (lost.empty()) return;
  v1::PartsLost& message = *out.send.emplace_back().mutable_parts_lost();
  for (const PartAt& at : lost) {
    v1::LostPart& part = *message.add_parts();
    part.set_generation(at.generation.value);
    ExtentToProto(at.extent, part.mutable_extent());
  }
  metrics_.lost_parts.Increment(lost.size());
}

void MasterLink::SendCopyResults(LinkOutput& out) {
  for (const CopyResult& copy : copies_.TakeResults()) {
    v1::CommandResult& result = *out.send.emplace_back().mutable_command_result();
    result.set_command_id(copy.command_id);
    StatusToProto(copy.status, result.mutable_status());
  }
}

void MasterLink::Drop(const absl::Status& why, absl::Time now, LinkOutput& out) {
  out.disconnect = true;
  out.send.clear();
  EndSearch(out);
  ScheduleRetry(why, now);
}

void MasterLink::ScheduleRetry(const absl::Status& why, absl::Time now) {
  LogFailure(why);
  last_failure_ = why;
  metrics_.failures.Increment();
  if (ReasonOf(why) == ErrorReason::kNotLeader) {
    choice_.OnNotLeader(DetailOf(why)->leader, now);
  } else if (ReasonOf(why) == ErrorReason::kPeerUnreachable) {
    choice_.OnSilent(now);  // of our own making: TimedOut
  } else {
    choice_.OnUnreachable(now);
  }
  deadline_ = choice_.Next(now).at;
  term_ = Term{};
  copies_.EndSession();
  EnterState(LinkState::kWaiting);
}

// Once per cause and master: one that is away for an hour is one line.
void MasterLink::LogFailure(const absl::Status& why) {
  constexpr size_t kLoggedMax = 16;
  const std::string cause = absl::StrCat(master_, " ", why.message());
  if (logged_.size() == kLoggedMax || absl::c_linear_search(logged_, cause)) return;
  logged_.push_back(cause);
  logger_.Warn("no link to the master",
               {{"master", master_}, {"state", LinkStateName(state_)}, {"why", Describe(why)}});
}

absl::Time MasterLink::WakeAt(absl::Time now, bool has_room) const {
  if (!has_session()) return deadline_;
  absl::Time wake_at = std::min({next_heartbeat_, last_heard_ + session_timeout_, SearchAt()});
  if (!has_room) return wake_at;
  if (copies_.has_results()) return now;
  if (state_ == LinkState::kUploading || index_.seal_reports().has_overflowed()) return now;
  if (index_.lost_parts().size() > 0 || index_.lost_parts().has_overflowed()) return now;
  const size_t pending = index_.seal_reports().size();
  if (pending >= options_.parts_per_message) return now;
  if (pending > 0) {
    wake_at = std::min(wake_at, reports_due_ == absl::InfiniteFuture() ? now : reports_due_);
  }
  return wake_at;
}

}  // namespace moonpool::storage_node
