#include "master/handlers/node_session.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/error.h"
#include "common/names.h"
#include "common/rpc/extent_proto.h"
#include "common/rpc/status_proto.h"
#include "common/status_macros.h"
#include "master/handlers/session_table.h"
#include "master/handlers/wire.h"

namespace moonpool::master {
namespace {

constexpr int kMaxSegments = 1024;  // of one message; the core's own bound is lower
constexpr uint64_t kMaxSegmentBytes = uint64_t{1} << 50;

absl::Status CheckRegister(const v1::Register& message) {
  RETURN_IF_ERROR(CheckVersion(message.version()));
  RETURN_IF_ERROR(CheckNodeName(message.name()));
  RETURN_IF_ERROR(CheckLabel("host_id", message.host_id()));
  RETURN_IF_ERROR(CheckLabel("rack", message.rack()));
  RETURN_IF_ERROR(CheckLength("tcp_address", message.tcp_address(), kMaxAddressBytes));
  RETURN_IF_ERROR(CheckLength("shm_path", message.shm_path(), kMaxAddressBytes));
  if (message.incarnation() == 0) return BadArgument("incarnation is 0");
  if (Term{message.highest_term_seen()} > kTermMax) {
    return BadArgument(absl::StrCat("no master has term ", message.highest_term_seen()));
  }
  if (message.segments_size() > kMaxSegments) {
    return BadArgument(absl::StrCat(message.segments_size(), " segments are too many"));
  }
  for (const v1::Segment& segment : message.segments()) {
    RETURN_IF_ERROR(CheckLabel("medium", segment.medium()));
    if (segment.capacity_bytes() > kMaxSegmentBytes) {
      return BadArgument(absl::StrCat("segment ", segment.segment(), " cannot have ",
                                      segment.capacity_bytes(), " bytes"));
    }
  }
  return absl::OkStatus();
}

RegisterNodeCommand ToCommand(const v1::Register& message) {
  RegisterNodeCommand command{.name = message.name(),
                              .incarnation = Incarnation{message.incarnation()},
                              .host_id = message.host_id(),
                              .rack = message.rack(),
                              .tcp_address = message.tcp_address(),
                              .shm_path = message.shm_path(),
                              .segments = {},
                              .highest_term_seen = Term{message.highest_term_seen()},
                              .wire_minor = message.version().minor()};
  for (const v1::Segment& segment : message.segments()) {
    command.segments.push_back(
        {SegmentId{segment.segment()}, segment.medium(), segment.capacity_bytes()});
  }
  return command;
}

SealedPart ToSealedPart(const v1::SealedPart& part) {
  return SealedPart{.generation = Generation{part.generation()},
                    .name_space = part.namespace_(),
                    .key = part.key(),
                    .parent = part.parent(),
                    .extent = ExtentFromProto(part.extent()),
                    .object_bytes = part.object_bytes(),
                    .part_index = part.part_index(),
                    .part_count = part.part_count(),
                    .replica_index = part.replica_index(),
                    .replicas = part.replicas()};
}

}  // namespace

NodeSession::NodeSession(Core& core, SessionTable& table, OnReady on_ready, absl::Time now)
    : core_(core), table_(table), on_ready_(std::move(on_ready)), last_heard_(now) {
  table_.Add(*this);
}

NodeSession::~NodeSession() {
  table_.Unbind(node_, *this);
  table_.Remove(*this);
}

void NodeSession::OnMessage(const v1::NodeMessage& message, absl::Time now) {
  if (state_ == State::kEnded) return;
  last_heard_ = now;
  if (state_ == State::kNew && !message.has_register_()) {
    ++table_.counts().protocol_errors;
    RefuseRegister(BadArgument("the first message of a session is Register"), now);
    return;
  }
  if (state_ == State::kRegistering) return ProtocolError("one before the registration", now);
  switch (message.message_case()) {
    case v1::NodeMessage::kRegister: return OnRegister(message.register_(), now);
    case v1::NodeMessage::kInventory: return OnInventory(message.inventory(), now);
    case v1::NodeMessage::kHeartbeat: return OnHeartbeat(message.heartbeat(), now);
    case v1::NodeMessage::kSealReport: return OnSealReport(message.seal_report(), now);
    case v1::NodeMessage::kCommandResult: return OnCommandResult(message.command_result(), now);
    case v1::NodeMessage::kPartsLost: return OnPartsLost(message.parts_lost(), now);
    case v1::NodeMessage::MESSAGE_NOT_SET: return ProtocolError("an empty message", now);
  }
}

void NodeSession::OnRegister(const v1::Register& message, absl::Time now) {
  if (state_ != State::kNew) return ProtocolError("a second Register", now);
  if (const absl::Status status = CheckRegister(message); !status.ok()) {
    return RefuseRegister(status, now);
  }
  if (table_.unsaved().full()) return RefuseRegister(TooManyUnsaved(), now);
  const absl::StatusOr<Registration> registration = core_.RegisterNode(ToCommand(message), now);
  if (!registration.ok()) return RefuseRegister(registration.status(), now);
  state_ = State::kRegistering;
  name_ = message.name();
  node_ = registration->node;
  session_ = registration->session;
  for (const v1::Segment& segment : message.segments()) {
    segments_.push_back({SegmentId{segment.segment()}, segment.capacity_bytes()});
  }
  saved_by_ = registration->saved_by;
  newest_granted_ = registration->newest;
  table_.Bind(node_, *this, now);
  FinishRegister(now);
}

void NodeSession::FinishRegister(absl::Time now) {
  if (state_ != State::kRegistering) return;
  const std::optional<absl::Status> outcome = table_.unsaved().OutcomeOf(saved_by_);
  if (!outcome.has_value()) return;
  if (!outcome->ok()) return RefuseRegister(*outcome, now);
  ++table_.counts().registrations;
  state_ = State::kInventory;
  v1::MasterMessage answer;
  v1::Registered* registered = answer.mutable_registered();
  SetVersion(registered->mutable_version());
  told_term_ = core_.term();
  registered->set_term(told_term_.value);
  registered->set_node_id(node_.value);
  registered->set_heartbeat_interval_ms(ToWireMs(table_.options().heartbeat_interval));
  registered->set_session_timeout_ms(ToWireMs(table_.options().session_timeout));
  registered->set_newest_generation(newest_granted_.value);
  queue_.push_front(std::move(answer));  // before what there is to be done
  on_ready_();
}

void NodeSession::RefuseRegister(const absl::Status& status, absl::Time now) {
  ++table_.counts().registrations_refused;
  Refuse(status, now);
}

void NodeSession::Refuse(const absl::Status& status, absl::Time now) {
  if (state_ == State::kEnded) return;
  // Commands that are not sent yet are of no use to a node that leaves. Those that are may arrive
  // after another leader has begun: they name this master's term, and its generations, and the node
  // goes by the newest (R2).
  queue_.clear();
  queued_generations_ = 0;
  v1::MasterMessage answer;
  StatusToProto(status, answer.mutable_refused()->mutable_status());
  queue_.push_back(std::move(answer));
  End(status, /*may_drain=*/true, now);
}

void NodeSession::OnInventory(const v1::Inventory& message, absl::Time now) {
  if (state_ != State::kInventory) return ProtocolError("an inventory after its end", now);
  if (message.parts_size() > table_.options().max_records_per_message) {
    return End(BadArgument("too many parts in one slice of an inventory"), true, now);
  }
  const std::vector<SealedPart> parts = Screen(message.parts());
  if (!parts.empty()) core_.InventorySlice(node_, session_, parts, now);
  if (!message.complete()) return;
  state_ = State::kServing;
  core_.InventoryComplete(node_, session_, now);
}

void NodeSession::OnSealReport(const v1::SealReport& message, absl::Time now) {
  if (message.parts_size() > table_.options().max_records_per_message) {
    return End(BadArgument("too many parts in one seal report"), true, now);
  }
  const std::vector<SealedPart> parts = Screen(message.parts());
  if (!parts.empty()) core_.SealReport(node_, session_, parts, now);
}

void NodeSession::OnPartsLost(const v1::PartsLost& message, absl::Time now) {
  if (message.parts_size() > table_.options().max_records_per_message) {
    return End(BadArgument("too many parts in one report of lost ones"), true, now);
  }
  std::vector<LostPart> parts;
  parts.reserve(static_cast<size_t>(message.parts_size()));
  for (const v1::LostPart& part : message.parts()) {
    parts.push_back({Generation{part.generation()}, ExtentFromProto(part.extent())});
  }
  core_.PartsLost(node_, session_, parts, now);
}

void NodeSession::OnHeartbeat(const v1::Heartbeat& message, absl::Time now) {
  core_.Heartbeat(node_, session_, now,
                  message.has_parts_max() ? std::optional(message.parts_max()) : std::nullopt);
  heartbeat_to_ack_ = message.sequence();
  on_ready_();
}

void NodeSession::OnCommandResult(const v1::CommandResult& message, absl::Time now) {
  core_.CommandResult(node_, session_, message.command_id(), StatusFromProto(message.status()),
                      now);
}

void NodeSession::ProtocolError(const char* what, absl::Time now) {
  ++table_.counts().protocol_errors;
  if (++protocol_errors_ <= table_.options().max_protocol_errors) return;
  End(BadArgument(absl::StrCat("too many messages out of order, the last was ", what)), true, now);
}

std::vector<SealedPart> NodeSession::Screen(
    const google::protobuf::RepeatedPtrField<v1::SealedPart>& parts) {
  std::vector<SealedPart> good;
  good.reserve(static_cast<size_t>(parts.size()));
  for (const v1::SealedPart& part : parts) {
    if (IsPlausible(part)) good.push_back(ToSealedPart(part));
  }
  const uint64_t quarantined = static_cast<uint64_t>(parts.size()) - good.size();
  records_quarantined_ += quarantined;
  table_.counts().records += static_cast<uint64_t>(parts.size());
  table_.counts().records_quarantined += quarantined;
  return good;
}

bool NodeSession::IsPlausible(const v1::SealedPart& part) const {
  const Generation generation{part.generation()};
  if (generation.value == 0 || generation.term() > kTermMax) return false;
  if (part.key().empty() || part.key().size() > kMaxKeyBytes) return false;
  if (part.parent().size() > kMaxKeyBytes || part.namespace_().size() > kMaxNamespaceBytes) {
    return false;
  }
  if (part.part_count() == 0 || part.part_count() > kMaxPartsPerReplica) return false;
  if (part.part_index() >= part.part_count() || part.replica_index() >= kMaxReplicas ||
      part.replicas() > kMaxReplicas) {
    return false;
  }

  const Extent extent = ExtentFromProto(part.extent());
  const auto segment = std::find_if(segments_.begin(), segments_.end(), [&](const Segment& known) {
    return known.segment == extent.segment;
  });
  if (segment == segments_.end()) return false;
  if (extent.length < kPartHeaderBytes || extent.length > segment->capacity_bytes) return false;
  if (extent.offset > segment->capacity_bytes - extent.length) return false;
  return part.part_count() == 1 ? extent.payload_bytes() == part.object_bytes()
                                : extent.payload_bytes() <= part.object_bytes();
}

void NodeSession::SendFree(const FreeCommand& command) {
  if (state_ == State::kEnded || command.session != session_ ||
      queued_generations_ >= table_.options().max_queued_generations) {
    ++table_.counts().commands_dropped;
    return;
  }
  ++table_.counts().commands_sent;
  v1::MasterMessage message;
  v1::Command* out = message.mutable_command();
  out->set_command_id(command.command_id);
  out->set_term(core_.term().value);
  auto* generations = out->mutable_free()->mutable_generations();
  generations->Reserve(static_cast<int>(command.generations.size()));
  for (const Generation generation : command.generations) generations->Add(generation.value);
  out->mutable_free()->set_oldest_open(command.oldest_open.value);
  out->mutable_free()->set_newest(command.newest.value);
  queued_generations_ += 1 + command.generations.size();
  Queue(std::move(message));
}

void NodeSession::SendCopy(const CopyCommand& command) {
  if (state_ == State::kEnded || command.session != session_ ||
      queued_generations_ >= table_.options().max_queued_generations) {
    ++table_.counts().commands_dropped;
    return;
  }
  ++table_.counts().commands_sent;
  v1::MasterMessage message;
  CopyToProto(command, core_.term(), message.mutable_command());
  ++queued_generations_;
  Queue(std::move(message));
}

void NodeSession::TellTerm() {
  if (!is_live() || told_term_ == core_.term()) return;
  told_term_ = core_.term();
  if (!heartbeat_to_ack_.has_value()) heartbeat_to_ack_ = 0;
  on_ready_();
}

void NodeSession::OnSilence(bool is_silent) {
  has_silence_to_tell_ = is_silent && is_live();
  on_ready_();
}

void NodeSession::Queue(v1::MasterMessage message) {
  queue_.push_back(std::move(message));
  on_ready_();
}

std::optional<v1::MasterMessage> NodeSession::TakeMessage() {
  if (state_ == State::kRegistering) return std::nullopt;
  if (table_.is_silent() && state_ != State::kEnded) {
    if (!std::exchange(has_silence_to_tell_, false)) return std::nullopt;
    v1::MasterMessage last;
    last.mutable_silence();
    return last;
  }
  // Acknowledgements overtake commands: a node judges the master by them.
  if (is_live() && heartbeat_to_ack_.has_value()) {
    v1::MasterMessage ack;
    ack.mutable_heartbeat_ack()->set_sequence(*std::exchange(heartbeat_to_ack_, std::nullopt));
    ack.mutable_heartbeat_ack()->set_term(core_.term().value);
    return ack;
  }
  if (queue_.empty()) return std::nullopt;
  v1::MasterMessage message = std::move(queue_.front());
  queue_.pop_front();
  if (message.has_command()) {
    queued_generations_ -= 1 + static_cast<size_t>(message.command().free().generations_size());
  }
  return message;
}

void NodeSession::End(absl::Status status, bool may_drain, absl::Time now) {
  if (state_ == State::kEnded) return;
  const bool was_registered = state_ != State::kNew;
  state_ = State::kEnded;
  end_status_ = std::move(status);
  drain_until_ = now + table_.options().drain_timeout;
  if (!may_drain) {
    queue_.clear();
    queued_generations_ = 0;
    is_cut_off_ = true;
  }
  if (was_registered) {
    table_.Unbind(node_, *this);
    core_.NodeDisconnected(node_, session_, now);
  }
  on_ready_();
}

void NodeSession::Tick(absl::Time now) {
  const HandlersOptions& options = table_.options();
  if (state_ == State::kEnded) {
    if (is_cut_off_ || now < drain_until_) return;
    queue_.clear();
    is_cut_off_ = true;
    return on_ready_();
  }
  const absl::Duration allowed =
      state_ == State::kNew ? options.register_timeout : options.session_timeout;
  if (now < last_heard_ + allowed) return;
  ++table_.counts().sessions_timed_out;
  End(MakeError(absl::StatusCode::kDeadlineExceeded, ErrorReason::kDeadline,
                absl::StrCat("nothing was heard from the node for ",
                             absl::FormatDuration(now - last_heard_)),
                {.hint = "the node registers again"}),
      /*may_drain=*/false, now);
}

void NodeSession::Close(absl::Time now) {
  on_ready_ = [] {};
  End(MakeError(absl::StatusCode::kUnavailable, ErrorReason::kPeerUnreachable,
                "the node's stream has ended"),
      /*may_drain=*/false, now);
}

}  // namespace moonpool::master
