// A pool whose nodes take copies, for tests of what moves replicas. A copy is carried out when the
// test says so; until then it is in flight.
//
//   CopyPool pool;
//   pool.AddNodes(3, 100 * kBlock);
//   pool.PutSealed("key", kBlockPayload, {.replicas = 2});
//   pool.Lose(0);
//   pool.Settle();
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "master/core/testing/core_fixture.h"
#include "master/core/testing/fake_node.h"

namespace moonpool::master {

class CopyPool : public CoreFixture {
 public:
  explicit CopyPool(CoreOptions options = {}, Term term = Term{7})
      : CoreFixture(std::move(options), term) {}
  CopyPool(CoreOptions options, const DurableState& left, Term term)
      : CoreFixture(std::move(options), left, term) {}

  // n0, n1, ... each on a host of its own, all past the time in which an empty node gets less.
  void AddNodes(int count, uint64_t capacity_bytes) {
    for (int i = 0; i < count; ++i) Join(absl::StrCat("n", nodes.size()), capacity_bytes);
    Advance(absl::Minutes(2));
    KeepAlive();
  }
  FakeNode& Join(const std::string& name, uint64_t capacity_bytes, const std::string& host = "",
                 const std::string& rack = "", uint32_t wire_minor = kCopyMinor) {
    RegisterNodeCommand description = Description(name, {capacity_bytes}, host, rack);
    description.wire_minor = wire_minor;
    nodes.push_back(std::make_unique<FakeNode>(std::move(description)));
    Connect(*nodes.back());
    return *nodes.back();
  }
  void Connect(FakeNode& node) {
    const NodeHandle handle = Register(node.description);
    node.id = handle.id;
    node.session = handle.session;
    node.is_connected = true;
    Inventory(handle, node.Inventory());
    Complete(handle);
  }
  void Disconnect(FakeNode& node) {
    core.NodeDisconnected(node.id, node.session, now);
    node.is_connected = false;
  }
  // Its master is followed by this one, to which all nodes come.
  void Follow(CopyPool& former) {
    nodes = std::move(former.nodes);
    for (const auto& node : nodes) {
      node->description.highest_term_seen = former.core.term();
      Connect(*node);
    }
  }
  // Away until its replicas count as lost, and they are dropped.
  void Lose(FakeNode& node) {
    Disconnect(node);
    Advance(absl::Seconds(6));
  }
  void KeepAlive() {
    for (const auto& node : nodes) {
      if (node->is_connected) core.Heartbeat(node->id, node->session, now);
    }
  }

  // As a client does it: all parts are sealed, and then committed.
  Grant PutSealed(const std::string& key, uint64_t size, PutArguments arguments = {}) {
    const Grant grant = Grab(key, size, arguments);
    for (const auto& node : nodes) {
      for (SealedPart part : Sealed(key, size, grant, node->id, arguments.parent)) {
        part.replicas = arguments.replicas;
        EXPECT_TRUE(node->Seal(RecordOf(part)));
      }
    }
    EXPECT_THAT(Commit(grant), IsOk());
    return grant;
  }

  // Takes what there is to do: frees are carried out at once, copies wait in `orders`.
  void Collect() {
    Effects effects = core.TakeEffects();
    for (const FreeCommand& free : effects.frees) {
      FakeNode* const node = NodeOf(free.node);
      if (node == nullptr || !node->is_connected) continue;
      node->Free(free);
      core.CommandResult(free.node, free.session, free.command_id, absl::OkStatus(), now);
    }
    for (CopyCommand& copy : effects.copies) orders.push_back(std::move(copy));
    for (DurableChange& change : effects.unsaved) unsaved.push_back(std::move(change));
    core.Saved(unsaved.size());
  }
  // The node does what it is told: OK when its source has the part.
  absl::Status CarryOut(const CopyCommand& copy) {
    FakeNode* const target = NodeOf(copy.node);
    const FakeNode* const source = NodeOf(copy.source.node);
    if (target == nullptr || !target->is_connected) return absl::UnavailableError("target");
    return target->CarryOut(copy, source != nullptr && source->is_connected ? source : nullptr);
  }
  void Answer(const CopyCommand& copy, const absl::Status& status) {
    core.CommandResult(copy.node, copy.session, copy.command_id, status, now);
  }
  // Until nothing is in flight and nothing new begins.
  void Settle(absl::Duration longest = absl::Seconds(30)) {
    const absl::Time end = now + longest;
    for (;;) {
      Collect();
      const std::vector<CopyCommand> all = std::exchange(orders, {});
      for (const CopyCommand& copy : all) Answer(copy, CarryOut(copy));
      if (!all.empty()) continue;
      if (now >= end) break;
      Advance(absl::Milliseconds(100));
      KeepAlive();
    }
    EXPECT_THAT(core.CheckInvariants(), IsOk());
  }

  FakeNode* NodeOf(NodeId id) {
    for (const auto& node : nodes) {
      if (node->id == id) return node.get();
    }
    return nullptr;
  }
  // Names of the nodes that hold it, sorted.
  std::vector<std::string> Holders(absl::string_view key) {
    const auto list = core.ListObjects({.prefix = key}, now);
    for (const ObjectEntry& entry : list->objects) {
      if (entry.key != key) continue;
      std::vector<std::string> names = entry.nodes;
      std::sort(names.begin(), names.end());
      return names;
    }
    return {};
  }
  // All parts that the core names are at their nodes, byte for byte.
  void ExpectReadable(absl::string_view key) {
    const LocateOutcome found = Get(key);
    ASSERT_THAT(found.status, IsOk()) << key;
    for (const Replica& replica : found.location.replicas) {
      for (const Part& part : replica.parts) {
        EXPECT_TRUE(NodeOf(part.node)->Holds(found.location.generation, part.extent)) << key;
      }
    }
  }
  NodeStatus StatusOf(const std::string& name) {
    for (NodeStatus& node : core.ListNodes(now)) {
      if (node.address.name == name) return node;
    }
    return {};
  }
  StatusResult Status() { return core.GetStatus(now); }
  uint64_t Ended(CopyEnd end) { return Status().totals.copies_ended[static_cast<size_t>(end)]; }

  static SealedRecord RecordOf(const SealedPart& part) {
    return SealedRecord{.generation = part.generation,
                        .key = std::string(part.key),
                        .parent = std::string(part.parent),
                        .extent = part.extent,
                        .object_bytes = part.object_bytes,
                        .part_index = part.part_index,
                        .part_count = part.part_count,
                        .replica_index = part.replica_index,
                        .replicas = part.replicas};
  }

  std::vector<std::unique_ptr<FakeNode>> nodes;
  std::vector<CopyCommand> orders;     // copies that were sent and are not carried out
  std::vector<DurableChange> unsaved;  // durable when they are taken
};

}  // namespace moonpool::master
