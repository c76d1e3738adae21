// The model's nodes, its operators, and the masters that follow each other.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <variant>

#include "absl/strings/str_cat.h"
#include "common/error.h"
#include "common/testing/status_matchers.h"
#include "master/core/testing/model.h"

namespace moonpool::master {

void Model::Connect(FakeNode& node, bool completes) {
  RegisterNodeCommand& description = node.description;
  description.highest_term_seen = std::max(description.highest_term_seen, core_->term());
  const auto registration = core_->RegisterNode(description, now_);
  if (ReasonOf(registration.status()) == ErrorReason::kNodeLost) return;  // it may come later
  ASSERT_THAT(registration, IsOk());
  node.EndSession();
  node.id = registration->node;
  node.session = registration->session;
  node.is_connected = true;
  forgotten_.erase(description.name);
  // All that are in session hear of a term that this has raised, before they see its grants.
  for (const auto& other : nodes_) {
    if (other->is_connected) other->description.highest_term_seen = registration->term;
  }
  const std::vector<SealedPart> parts = node.Inventory();
  const size_t half = random_.Below(parts.size() + 1);
  const auto all = absl::MakeConstSpan(parts);
  core_->InventorySlice(node.id, node.session, all.first(half), now_);
  core_->InventorySlice(node.id, node.session, all.subspan(half), now_);
  if (completes) Complete(node);
}

void Model::Complete(FakeNode& node) { core_->InventoryComplete(node.id, node.session, now_); }

void Model::SendReports(FakeNode& node) {
  for (const SealedRecord& record : std::exchange(node.outbox, {})) {
    // A node says nothing about what it does not have any more.
    if (!node.Holds(record.generation, record.extent)) continue;
    const SealedPart report[] = {record.View()};
    core_->SealReport(node.id, node.session, report, now_);
  }
}

void Model::SendLost(FakeNode& node) {
  const std::vector<LostPart> lost = std::exchange(node.lost, {});
  if (!lost.empty()) core_->PartsLost(node.id, node.session, lost, now_);
}

void Model::SendAnswers(FakeNode& node) {
  for (const CopyAnswer& answer : std::exchange(node.answers, {})) {
    core_->CommandResult(node.id, node.session, answer.command_id, answer.status, now_);
  }
}

void Model::CarryOutFrees(FakeNode& node) {
  for (const FreeCommand& command : std::exchange(node.inbox, {})) {
    node.Free(command);
    core_->CommandResult(node.id, command.session, command.command_id, absl::OkStatus(), now_);
  }
}

void Model::WorkOnCopies(FakeNode& node) {
  for (const CopyCommand& copy : std::exchange(node.copies, {})) {
    const uint64_t dice = random_.Below(20);
    if (dice < 6) {
      node.copies.push_back(copy);  // later
      continue;
    }
    if (dice == 6) continue;  // nobody hears of it again
    absl::Status status = absl::ResourceExhaustedError("refused");
    if (dice == 7) {
      status = MakeError(absl::StatusCode::kUnavailable, ErrorReason::kBytesPinned, "pinned");
    } else if (dice > 8) {
      status = node.CarryOut(copy, NodeOf(copy.source.node));
    }
    if (status.ok()) node.outbox.push_back(FakeNode::RecordOf(copy));
    node.answers.push_back({copy.command_id, status});
  }
}

void Model::WorkOnNode(FakeNode& node) {
  if (!node.is_connected) return;
  WorkOnCopies(node);
  const NamedObjects before = NamedNow();
  if (random_.OneIn(2)) SendAnswers(node);
  if (random_.OneIn(2)) SendLost(node);
  // What is lost is said before later seals are.
  if (node.lost.empty() && !random_.OneIn(4)) SendReports(node);
  if (!random_.OneIn(4)) CarryOutFrees(node);
  ExpectExcused(before);
}

void Model::Disturb(FakeNode& node) {
  held_.clear();  // loss of a node ends leases
  const NamedObjects before = NamedNow();
  if (node.is_connected && random_.OneIn(2)) {
    core_->NodeDisconnected(node.id, node.session, now_);
    node.EndSession();
    if (random_.OneIn(4)) node.LoseAll();
  } else {
    Connect(node, !random_.OneIn(4));
  }
  ExpectExcused(before);
}

void Model::Damage(FakeNode& node) {
  if (node.records().empty()) return;
  held_.clear();
  auto at = node.records().begin();
  std::advance(at, random_.Below(node.records().size()));
  const SealedRecord record = at->second;
  node.Forget(record.extent);
  if (node.is_connected) node.lost.push_back({record.generation, record.extent});
}

void Model::Drain(const FakeNode& node) {
  const std::string& name = node.description.name;
  const bool cancel = draining_.contains(name);
  if (!cancel && draining_.size() > 1) return;
  const auto drained = core_->DrainNode(name, cancel, now_);
  if (absl::IsNotFound(drained.status())) return;  // it was forgotten
  ASSERT_THAT(drained, IsOk());
  if (cancel) {
    draining_.erase(name);
  } else {
    draining_.insert(name);
  }
}

void Model::Forget(FakeNode& node) {
  const NamedObjects before = NamedNow();
  held_.clear();
  if (node.is_connected) core_->NodeDisconnected(node.id, node.session, now_);
  node.EndSession();
  const std::string& name = node.description.name;
  const auto forgotten = core_->ForgetNode(name, now_);
  ASSERT_TRUE(forgotten.ok() || absl::IsNotFound(forgotten.status())) << forgotten.status();
  draining_.erase(name);
  forgotten_.insert(name);
  // Where nothing is kept the operator has to be right: no master to come knows of what he said.
  if (!keeps_state_ || random_.OneIn(2)) node.LoseAll();
  ExpectExcused(before);
}

// Effects go to the nodes; what a lease protects is not freed.
void Model::Deliver() {
  const Effects effects = core_->TakeEffects();
  for (const FreeCommand& command : effects.frees) {
    for (const Generation generation : command.generations) {
      for (const auto& [key, held] : held_) {
        if (held.until <= now_ || held.location.generation != generation) continue;
        for (const Replica& replica : held.location.replicas) {
          for (const Part& part : replica.parts) ASSERT_NE(part.node, command.node) << key;
        }
      }
    }
    FakeNode* const node = NodeOf(command.node);
    if (node != nullptr && node->is_connected) node->inbox.push_back(command);
  }
  for (const CopyCommand& copy : effects.copies) {
    FakeNode* const node = NodeOf(copy.node);
    ASSERT_NE(node, nullptr);
    if (node->is_connected && node->session == copy.session) node->copies.push_back(copy);
  }
  for (const NodeId id : effects.to_register) NodeOf(id)->EndSession();
  for (const RemoveTicket ticket : effects.removes_done) {
    const auto removal = removals_.find(ticket);
    if (removal == removals_.end()) continue;
    removed_for_good_[removal->second.first] = removal->second.second;
    removals_.erase(removal);
  }
  for (const DurableChange& change : effects.unsaved) Save(change);
  core_->Saved(saved_);
}

namespace {

template <typename Value, typename IsIt>
void Replace(std::vector<Value>& values, Value value, IsIt is_it) {
  std::erase_if(values, is_it);
  values.push_back(std::move(value));
}

struct Saver {
  DurableState& disk;

  void operator()(const Term& term) { disk.term = term; }
  void operator()(const RegistryClosed&) { disk.is_registry_closed = true; }
  void operator()(const DurableNamespace& known) {
    Replace(disk.namespaces, known, [&](const auto& other) { return other.name == known.name; });
  }
  void operator()(const DurableNode& node) {
    Replace(disk.nodes, node, [&](const auto& other) { return other.name == node.name; });
  }
  void operator()(const NodeForgotten& node) {
    std::erase_if(disk.nodes, [&](const auto& other) { return other.name == node.name; });
  }
  void operator()(const DurableRemoval& removal) {
    Replace(disk.removals, removal, [&](const auto& other) { return other.key == removal.key; });
  }
  void operator()(const RemovalForgotten& removal) {
    std::erase_if(disk.removals, [&](const auto& other) { return other.key == removal.key; });
  }
  void operator()(const DurableDrain& drain) {
    Replace(disk.drains, drain, [&](const auto& other) { return other.name == drain.name; });
  }
  void operator()(const DrainEnded& drain) {
    std::erase_if(disk.drains, [&](const auto& other) { return other.name == drain.name; });
  }
};

}  // namespace

void Model::Save(const DurableChange& change) {
  std::visit(Saver{disk_}, change);
  ++saved_;
}

bool Model::AreAllHere() const {
  return std::all_of(nodes_.begin(), nodes_.end(),
                     [](const auto& node) { return node->is_connected; });
}

void Model::Settle() {
  for (int round = 0;; ++round) {
    ASSERT_LT(round, 1000) << "it never comes to rest";
    bool is_at_rest = true;
    for (const auto& node : nodes_) {
      if (!node->is_connected) {
        Connect(*node, true);
        if (node->is_connected) is_at_rest = false;
      }
      if (node->is_connected) Complete(*node);
    }
    while (core_->Tick(now_)) {
    }
    Deliver();
    for (const auto& node : nodes_) {
      for (const CopyCommand& copy : std::exchange(node->copies, {})) {
        const absl::Status status = node->CarryOut(copy, NodeOf(copy.source.node));
        if (status.ok()) node->outbox.push_back(FakeNode::RecordOf(copy));
        node->answers.push_back({copy.command_id, status});
      }
      const bool is_idle = node->inbox.empty() && node->outbox.empty() && node->lost.empty() &&
                           node->answers.empty();
      is_at_rest = is_at_rest && is_idle;
      SendAnswers(*node);
      SendLost(*node);
      SendReports(*node);
      CarryOutFrees(*node);
    }
    Deliver();
    if (is_at_rest) return;
  }
}

void Model::Restart() {
  const bool is_crash = random_.OneIn(2);
  if (!is_crash) Settle();
  NamedObjects before = NamedNow();
  std::erase_if(before, [&](const auto& entry) {
    const Replicas& replicas = entry.second.replicas;
    return std::none_of(replicas.begin(), replicas.end(), [&](const Replica& replica) {
      return IsWhole(entry.second.generation, replica, /*in_session=*/false);
    });
  });
  Deliver();
  NewCore();
  held_.clear();
  puts_.clear();
  std::erase_if(sealed_, [](const SealedPut& put) { return put.key.empty(); });
  left_in_flight_.merge(in_flight_);
  in_flight_.clear();
  // What was not confirmed may come back; nothing of it was promised.
  removals_.clear();
  removed_ = removed_for_good_;
  if (!keeps_state_) draining_.clear();
  for (const auto& node : nodes_) {
    node->EndSession();
    node->id = NodeId{};
  }
  const size_t first = random_.Below(nodes_.size());
  for (size_t i = 0; i < nodes_.size(); ++i) Connect(*nodes_[(first + i) % nodes_.size()], true);
  const NamedObjects after = NamedNow();
  for (const auto& [key, named] : before) {
    ASSERT_TRUE(after.contains(key)) << key << " " << ToString(named.generation);
    // A newer one may have been sealed after the old master had given it up.
    ASSERT_GE(after.at(key).generation, named.generation) << key;
  }
  Check();
}

}  // namespace moonpool::master
