// A core with nodes around it, for scenario tests that read like sentences.
//
//   CoreFixture pool;
//   NodeHandle node = pool.AddNode("n1", 10 * kBlock);
//   pool.Put("key", kBlock);
//   pool.Advance(absl::Seconds(6));
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/error.h"
#include "common/random.h"
#include "common/testing/status_matchers.h"
#include "common/types.h"
#include "master/core/core.h"

namespace moonpool::master {

// An object of kBlockPayload bytes takes exactly kBlock bytes of a segment.
inline constexpr uint64_t kBlock = 64 << 10;
inline constexpr uint64_t kBlockPayload = kBlock - kPartHeaderBytes;

struct NodeHandle {
  RegisterNodeCommand description;
  NodeId id;
  SessionId session;
};

struct PutArguments {
  std::string parent = {};
  uint64_t client_id = 1;
  uint64_t request_id = 0;  // 0: a new one
  std::string host = {};
  uint32_t replicas = 1;
  uint32_t min_replicas = 0;
  absl::Duration timeout = absl::Seconds(10);
  bool waits = false;
};

class CoreFixture {
 public:
  explicit CoreFixture(CoreOptions options = {}, Term term = Term{7})
      : core(std::move(options), term, Random(42)) {}
  // One that keeps durable state.
  CoreFixture(CoreOptions options, const DurableState& left, Term term)
      : core(std::move(options), term, Random(42), left) {}

  // Registers without an inventory.
  NodeHandle Register(RegisterNodeCommand description) {
    absl::StatusOr<Registration> registration = core.RegisterNode(description, now);
    EXPECT_TRUE(registration.ok()) << Describe(registration.status());
    if (!registration.ok()) return {};
    return NodeHandle{std::move(description), registration->node, registration->session};
  }
  NodeHandle AddNode(const std::string& name, uint64_t capacity_bytes, const std::string& host = "",
                     const std::string& rack = "") {
    NodeHandle node = Register(Description(name, {capacity_bytes}, host, rack));
    Complete(node);
    return node;
  }
  static RegisterNodeCommand Description(const std::string& name,
                                         const std::vector<uint64_t>& segments,
                                         const std::string& host = "", const std::string& rack = "",
                                         uint64_t incarnation = 1) {
    RegisterNodeCommand command{.name = name,
                                .incarnation = Incarnation{incarnation},
                                .host_id = host.empty() ? "host-" + name : host,
                                .rack = rack,
                                .tcp_address = name + ":1"};
    for (uint32_t i = 0; i < segments.size(); ++i) {
      command.segments.push_back(SegmentSpec{SegmentId{i}, "dram", segments[i]});
    }
    return command;
  }
  void Complete(const NodeHandle& node) { core.InventoryComplete(node.id, node.session, now); }
  void Disconnect(const NodeHandle& node) { core.NodeDisconnected(node.id, node.session, now); }

  Caller Me(const PutArguments& arguments = {}) const {
    return Caller{
        .client_id = arguments.client_id, .host_id = arguments.host, .timeout = arguments.timeout};
  }
  PutOutcome Start(absl::string_view key, uint64_t size, const PutArguments& arguments = {}) {
    const PutKey keys[] = {{.key = key, .size_bytes = size, .parent = arguments.parent}};
    auto outcomes = core.StartPuts(
        StartPutsCommand{
            .caller = Me(arguments),
            .request_id = arguments.request_id != 0 ? arguments.request_id : ++last_request_,
            .puts = keys,
            .replicas = arguments.replicas,
            .min_replicas = arguments.min_replicas,
            .wait_for_space = arguments.waits,
            .wait_for_writer = arguments.waits},
        now);
    if (!outcomes.ok()) return PutOutcome{.status = outcomes.status()};
    return std::move(outcomes->front());
  }
  // A grant that must succeed.
  Grant Grab(absl::string_view key, uint64_t size, const PutArguments& arguments = {}) {
    PutOutcome outcome = Start(key, size, arguments);
    EXPECT_THAT(outcome.status, IsOk()) << key;
    // Not value_or: GCC takes its temporary for uninitialised under the sanitizers.
    if (!outcome.grant.has_value()) return {};
    return *std::move(outcome.grant);
  }
  absl::Status Commit(const Grant& grant, absl::InlinedVector<uint32_t, 1> failed = {}) {
    const CommitPut puts[] = {{grant.generation, grant.handle, std::move(failed)}};
    return core.CommitPuts(Me(), puts, now)->front().status;
  }
  absl::Status Abort(const Grant& grant, std::vector<Part> pinned = {},
                     absl::string_view key = {}) {
    const AbortPut puts[] = {{grant.generation, grant.handle, std::move(pinned), key}};
    return core.AbortPuts(Me(), puts, now)->front();
  }
  std::vector<Grant> Spares(uint64_t size, uint32_t count, const PutArguments& arguments = {}) {
    return core.GrantSpares(
        Me(arguments),
        SpareWish{.size_bytes = size, .replicas = arguments.replicas, .count = count}, now);
  }
  // One that must come.
  Grant Spare(uint64_t size, const PutArguments& arguments = {}) {
    std::vector<Grant> spares = Spares(size, 1, arguments);
    EXPECT_EQ(spares.size(), 1u);
    return spares.empty() ? Grant{} : std::move(spares.front());
  }
  CommitOutcome CommitAs(absl::string_view key, const Grant& spare,
                         const PutArguments& arguments = {}) {
    const CommitPut puts[] = {
        {spare.generation, spare.handle, {}, key, absl::string_view(arguments.parent)}};
    return core.CommitPuts(Me(arguments), puts, now)->front();
  }
  absl::Status Put(absl::string_view key, uint64_t size, const PutArguments& arguments = {}) {
    const PutOutcome outcome = Start(key, size, arguments);
    return outcome.status.ok() ? Commit(*outcome.grant) : outcome.status;
  }
  LocateOutcome Get(absl::string_view key, absl::Duration lease = absl::ZeroDuration()) {
    const absl::string_view keys[] = {key};
    return core.Locate(LocateCommand{.caller = Me(), .keys = keys, .lease = lease}, now)->front();
  }
  absl::Status Exists(absl::string_view key) {
    const absl::string_view keys[] = {key};
    return core.Exists(Me(), keys, now)->front();
  }
  RemoveOutcome Remove(absl::string_view key) {
    const absl::string_view keys[] = {key};
    return core.Remove(Me(), keys, now)->front();
  }

  // What the node would report of this grant: all parts that stand on it.
  static std::vector<SealedPart> Sealed(absl::string_view key, uint64_t size, const Grant& grant,
                                        NodeId node, absl::string_view parent = "") {
    std::vector<SealedPart> sealed;
    for (uint32_t r = 0; r < grant.replicas.size(); ++r) {
      const auto& parts = grant.replicas[r].parts;
      for (uint32_t p = 0; p < parts.size(); ++p) {
        if (parts[p].node != node) continue;
        sealed.push_back(SealedPart{.generation = grant.generation,
                                    .name_space = "default",
                                    .key = key,
                                    .parent = parent,
                                    .extent = parts[p].extent,
                                    .object_bytes = size,
                                    .part_index = p,
                                    .part_count = static_cast<uint32_t>(parts.size()),
                                    .replica_index = r});
      }
    }
    return sealed;
  }
  void Report(const NodeHandle& node, const std::vector<SealedPart>& parts) {
    core.SealReport(node.id, node.session, parts, now);
  }
  void Inventory(const NodeHandle& node, const std::vector<SealedPart>& parts) {
    core.InventorySlice(node.id, node.session, parts, now);
  }
  // Sends what the core wants to be freed and confirms it, as prompt nodes would.
  std::vector<FreeCommand> TakeFrees() { return core.TakeEffects().frees; }
  void Confirm(const FreeCommand& command) {
    core.CommandResult(command.node, command.session, command.command_id, absl::OkStatus(), now);
  }

  void Advance(absl::Duration duration) {
    now += duration;
    while (core.Tick(now)) {
    }
  }

  Core core;
  absl::Time now = absl::UnixEpoch() + absl::Hours(1);

 private:
  uint64_t last_request_ = 1000;
};

}  // namespace moonpool::master
