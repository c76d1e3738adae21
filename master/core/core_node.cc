// Nodes come, go and come back (R11).
#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/error.h"
#include "common/status_macros.h"
#include "master/core/core.h"
#include "master/core/core_state.h"

namespace moonpool::master {
namespace {

absl::Status BadDescription(absl::string_view message) {
  return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kBadArgument, message);
}

bool SameSegments(const NodeRecord& node, const RegisterNodeCommand& command) {
  if (node.segments.size() != command.segments.size()) return false;
  for (const SegmentSpec& spec : command.segments) {
    const SegmentSpec& known = node.segments[spec.segment.value].spec;
    if (known.capacity_bytes != spec.capacity_bytes || known.medium != spec.medium) return false;
  }
  return true;
}

}  // namespace

absl::StatusOr<Registration> Core::RegisterNode(const RegisterNodeCommand& command,
                                                absl::Time now) {
  CoreState& s = *state_;
  s.Observe(now);
  RETURN_IF_ERROR(s.CheckRegistration(command, now));
  NodeRecord* node = s.nodes.FindByName(command.name);
  // A node that this core has not met yet knows a term from an older master.
  const bool is_foreign_term = node == nullptr || command.highest_term_seen > s.term;
  if (is_foreign_term && command.highest_term_seen.value > 0) {
    s.RaiseTerm(command.highest_term_seen);
  }
  const Generation given_up_to = s.GivenUpTo(command);
  if (node != nullptr && node->description.incarnation == command.incarnation &&
      SameSegments(*node, command)) {
    s.Reopen(*node, command, now);
  } else {
    const bool is_same_life =
        node != nullptr && node->description.incarnation == command.incarnation;
    const bool is_met = is_same_life ? node->is_met : s.nodes.ReadmitAt(command).has_value();
    std::vector<RemoveTicket> waiters;
    if (is_same_life) {
      s.keeper.TargetGone(*node);
      // The bytes are still there: what waits for them waits for the new record.
      s.debts.Move(node->id, NodeId{});
      waiters = std::exchange(node->inventory_waiters, {});
      s.GiveUp(*node, now);
    } else if (node != nullptr) {
      s.RetireNode(*node);
    }
    node = s.nodes.Add(command);
    if (node == nullptr && s.ReleaseOldestLost(now)) node = s.nodes.Add(command);
    if (node == nullptr) {
      s.ConfirmAll(s.debts.Drop(NodeId{}));
      s.ConfirmAll(waiters);
      return s.LimitReached("nodes", "--limit-nodes", s.options.max_nodes);
    }
    node->given_up_to = given_up_to;
    s.debts.Move(NodeId{}, node->id);
    node->inventory_waiters = std::move(waiters);
    node->is_met = is_met;
    node->is_draining = s.keeper.drains().contains(command.name);
  }
  s.debts.StartListing(node->id);
  s.Enlist(command, given_up_to);
  node->session = SessionId{++s.last_session};
  node->granted_before = Generation::Of(s.term, s.counter);
  node->last_heard = now;
  s.nodes.Refresh();
  for (const uint64_t id : s.debts.Unconfirmed(node->id, now)) s.Transmit(id, now);
  ++s.changes;
  return Registration{.node = node->id,
                      .session = node->session,
                      .term = s.term,
                      .newest = node->granted_before,
                      .saved_by = s.RegisteredBy(command)};
}

absl::Status CoreState::CheckRegistration(const RegisterNodeCommand& command,
                                          absl::Time now) const {
  if (command.name.empty() || command.name.size() > kMaxNamespaceBytes) {
    return BadDescription("a node needs a name of 1 to 255 bytes");
  }
  if (command.incarnation.value == 0) return BadDescription("an incarnation is never 0");
  const size_t count = command.segments.size();
  if (count == 0 || count > options.max_segments_per_node) {
    return BadDescription(
        absl::StrCat(count, " segments; 1 to ", options.max_segments_per_node, " are possible"));
  }
  std::vector<bool> is_named(count, false);
  for (const SegmentSpec& spec : command.segments) {
    if (spec.segment.value >= count || is_named[spec.segment.value]) {
      return BadDescription("segments are numbered from 0 without gaps");
    }
    is_named[spec.segment.value] = true;
    if (spec.capacity_bytes > uint64_t{1} << 56) return BadDescription("a segment over 64 PiB");
  }
  const std::optional<absl::Time> readmit_at = nodes.ReadmitAt(command);
  if (readmit_at.has_value() && now < *readmit_at) {
    return MakeError(absl::StatusCode::kUnavailable, ErrorReason::kNodeLost,
                     absl::StrCat("this incarnation of \"", command.name,
                                  "\" was given up, and what it held may still be leased"),
                     {.hint = "it is let in when the leases have ended",
                      .node = command.name,
                      .retry_after = *readmit_at - now});
  }
  const auto named = nodes.by_name().find(command.name);
  if (named == nodes.by_name().end()) return absl::OkStatus();
  const NodeRecord& node = nodes[named->second];
  if (node.is_up() && node.description.incarnation != command.incarnation) {
    return MakeError(absl::StatusCode::kFailedPrecondition, ErrorReason::kBadArgument,
                     absl::StrCat("a node named \"", command.name,
                                  "\" is in session with another incarnation, at ",
                                  node.description.tcp_address),
                     {.hint = "give each daemon a name of its own; a restarted one is let in when "
                              "the old session has timed out",
                      .node = command.name,
                      .retry_after = absl::Seconds(1)});
  }
  return absl::OkStatus();
}

void CoreState::Reopen(NodeRecord& node, const RegisterNodeCommand& command, absl::Time now) {
  if (node.is_up()) CloseSession(node, now);
  node.description.host_id = command.host_id;
  node.description.tcp_address = command.tcp_address;
  node.description.shm_path = command.shm_path;
  node.description.wire_minor = command.wire_minor;
  node.state = NodeState::kUp;
  node.inventory_complete = false;
  node.was_lost_full = false;
  node.seen = std::make_unique<SeenParts>();
}

void CoreState::CloseSession(NodeRecord& node, absl::Time now) {
  keeper.TargetGone(node);
  node.state = NodeState::kAway;
  node.session = SessionId{};
  node.lost_at = now + options.node_loss_timeout;
  node.seen = nullptr;
  node.unswept = 0;
  node.lost = nullptr;  // its inventory will tell
  node.unproven = nullptr;
  nodes.Refresh();
}

void CoreState::TakeInventoryAnew(NodeRecord& node, absl::Time now) {
  to_register.push_back(node.id);
  CloseSession(node, now);
  ++totals.inventories_retaken;
  ++changes;
}

void CoreState::RetireNode(NodeRecord& node) {
  keeper.TargetGone(node);
  Strike(node.description.name, node.description.incarnation);
  node.seen = nullptr;
  node.unswept = 0;
  node.lost = nullptr;
  node.unproven = nullptr;
  node.session = SessionId{};
  nodes.Retire(node.index);
  nodes.Refresh();
  // Its bytes are gone with it, or an operator says so; no more is what removals wait for.
  ConfirmAll(debts.Drop(node.id));
  ConfirmAll(std::exchange(node.inventory_waiters, {}));
}

void CoreState::GiveUp(NodeRecord& node, absl::Time now) {
  // Readers may hold leases from the time when it was up, or from an older leader.
  const absl::Time up_until = node.is_up() ? now : node.lost_at - options.node_loss_timeout;
  nodes.GiveUp(node.index, std::max(up_until + options.max_lease, hold_until));
  RetireNode(node);
}

void CoreState::ReleaseNode(NodeRecord& node) {
  for (size_t use = 0; use < bytes.size(); ++use) bytes[use] -= node.bytes[use];
  nodes.Release(node.index);
}

bool CoreState::ReleaseOldestLost(absl::Time now) {
  NodeRecord* oldest = nullptr;
  for (const auto& record : nodes.records()) {
    const bool is_empty = record != nullptr && record->state == NodeState::kLost &&
                          record->parts.empty() && record->inventory_waiters.empty() &&
                          !debts.IsAwaited(record->id);
    if (is_empty && (oldest == nullptr || record->lost_at < oldest->lost_at)) oldest = record.get();
  }
  if (oldest == nullptr) return false;
  GiveUp(*oldest, now);
  ReleaseNode(*oldest);
  return true;
}

NodeRecord* CoreState::SessionOf(NodeId id, SessionId session, absl::Time now) {
  Observe(now);
  NodeRecord* node = nodes.Find(id);
  if (node == nullptr || !node->is_up() || node->session != session) return nullptr;
  node->last_heard = now;
  return node;
}

bool CoreState::SettleLosses(SlotIndex slot, absl::Time now) {
  for (;;) {
    bool is_there[256] = {};
    bool is_broken[256] = {};
    NodeIndex gone = 0;
    objects.ForEachPart(slot, [&](const StoredPart& part) {
      const NodeState state = nodes[part.node].state;
      is_there[part.replica] = true;
      if (state != NodeState::kLost && state != NodeState::kRetired) return;
      is_broken[part.replica] = true;
      gone = part.node;
    });
    for (int i = 0; i < 256; ++i) {
      if (is_there[i] && !is_broken[i]) return false;
    }
    LoseParts(
        slot, [gone](const StoredPart& part) { return part.node == gone; }, now);
    if (objects[slot].state != ObjectState::kLive) return true;
  }
}

void Core::Heartbeat(NodeId node, SessionId session, absl::Time now,
                     std::optional<uint64_t> parts_max) {
  CoreState& s = *state_;
  NodeRecord* const record = s.SessionOf(node, session, now);
  if (record == nullptr) return;
  const bool was_full = record->is_journal_full();
  const bool has_more = parts_max.value_or(UINT64_MAX) > record->parts_max;
  record->parts_max = parts_max.value_or(UINT64_MAX);
  if (has_more) ++s.changes;  // somebody may be waiting for space
  if (was_full || !record->is_journal_full() || !record->is_usable()) return;
  // What was evicted there has records, too, as long as nothing has overwritten it, and is
  // forgotten when an inventory names it.
  s.TakeInventoryAnew(*record, now);
}

void Core::CommandResult(NodeId node, SessionId session, uint64_t command_id,
                         const absl::Status& status, absl::Time now) {
  NodeRecord* record = state_->SessionOf(node, session, now);
  if (record != nullptr && state_->keeper.TakeResult(*record, command_id, status, now)) return;
  // A command that failed is repeated after command_retry.
  if (record == nullptr || !status.ok()) return;
  const OpenCommand* const command = state_->debts.Find(command_id);
  if (command != nullptr && command->is_awaited) ++state_->changes;
  state_->ConfirmAll(state_->debts.Confirm(record->id, command_id));
}

void Core::NodeDisconnected(NodeId node, SessionId session, absl::Time now) {
  NodeRecord* record = state_->SessionOf(node, session, now);
  if (record != nullptr) state_->CloseSession(*record, now);
}

absl::StatusOr<ChangeNumber> Core::ForgetNode(absl::string_view name, absl::Time now) {
  CoreState& s = *state_;
  s.Observe(now);
  NodeRecord* node = s.nodes.FindByName(name);
  const auto known = s.registry.find(std::string(name));
  if (node == nullptr && known == s.registry.end()) {
    return MakeError(absl::StatusCode::kNotFound, ErrorReason::kBadArgument,
                     absl::StrCat("no node \"", absl::CHexEscape(name), "\""),
                     {.hint = "`moonpool nodes` lists those that this master knows"});
  }
  if (node != nullptr && node->is_up()) {
    return MakeError(absl::StatusCode::kFailedPrecondition, ErrorReason::kBadArgument,
                     absl::StrCat("node \"", name, "\" is in session"),
                     {.hint = "stop its moonpool-node first", .node = std::string(name)});
  }
  if (s.keeper.drains().Remove(name)) s.drains_saved_by = s.Save(DrainEnded{std::string(name)});
  if (node != nullptr) {
    s.GiveUp(*node, now);
  } else {  // since this master began it was not here
    s.Strike(std::string(name), known->second.incarnation);
  }
  return s.strike_saved_by;
}

}  // namespace moonpool::master
