// Random clients and nodes against the core, for many seeds. After every step something is known
// that must hold: what is located is sealed at its node with exactly that generation, leases keep
// locations as they are, what was removed stays away, a restarted master knows what its
// predecessor knew; and now and then everything is counted again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/random.h"
#include "common/testing/status_matchers.h"
#include "master/core/core.h"
#include "master/core/testing/fake_node.h"

namespace moonpool::master {
namespace {

constexpr int kKeys = 60;
constexpr int kNodes = 4;

struct OpenPut {
  std::string key;
  std::string parent;
  uint64_t size = 0;
  Grant grant;
};

struct HeldLocation {
  Location location;
  absl::Time until;
};

class Model {
 public:
  explicit Model(uint64_t seed) : random_(seed) {
    options_.work_per_tick = 7;
    options_.node_loss_timeout = absl::Seconds(3);
    options_.max_grant = absl::Seconds(8);
    options_.min_part_bytes = 1000;
    options_.stripe_bytes = 20000;
    options_.partial_timeout = absl::Seconds(5);
    options_.eviction_policy = random_.OneIn(2) ? "cohort" : random_.OneIn(2) ? "lru" : "s3fifo";
    options_.takeover_hold = absl::ZeroDuration();
    if (random_.OneIn(3)) options_.max_debts = 1 + static_cast<uint32_t>(random_.Below(6));
    NewCore();
    for (int i = 0; i < kNodes; ++i) {
      RegisterNodeCommand description{.name = absl::StrCat("n", i),
                                      .incarnation = Incarnation{1},
                                      .host_id = absl::StrCat("h", i / 2)};
      for (uint32_t s = 0; s <= static_cast<uint32_t>(i % 2); ++s) {
        description.segments.push_back(SegmentSpec{SegmentId{s}, "dram", 60000});
      }
      nodes_.push_back(std::make_unique<FakeNode>(std::move(description)));
      Connect(*nodes_.back(), true);
    }
  }

  void Step() {
    const uint64_t dice = random_.Below(1000);
    if (dice < 300) {
      StartPut();
    } else if (dice < 550) {
      FinishPut();
    } else if (dice < 580) {
      AbortPut();
    } else if (dice < 800) {
      Get();
    } else if (dice < 840) {
      Remove();
    } else if (dice < 900) {
      FakeNode& node = PickNode();
      SendReports(node);
      CarryOut(node);
    } else if (dice < 960) {
      now_ += absl::Milliseconds(static_cast<int64_t>(random_.Below(700)));
      core_->Tick(now_);
    } else if (dice < 985) {
      Disturb(PickNode());
    } else if (dice < 997) {
      Check();
    } else {
      Restart();
    }
    Deliver();
  }

  void Check() { ASSERT_THAT(core_->CheckInvariants(), IsOk()); }
  const StatusResult Status() const { return core_->GetStatus(now_); }

 private:
  void NewCore() {
    core_ = std::make_unique<Core>(options_, Term{++term_}, Random(random_.Next()));
  }
  std::string PickKey() { return absl::StrCat("key", random_.Below(kKeys)); }
  FakeNode& PickNode() { return *nodes_[random_.Below(nodes_.size())]; }
  Caller Me() {
    return Caller{.client_id = 1,
                  .host_id = random_.OneIn(2) ? "h0" : "h1",
                  .timeout = absl::Seconds(static_cast<int64_t>(1 + random_.Below(10)))};
  }

  void Connect(FakeNode& node, bool completes) {
    node.description.highest_term_seen =
        std::max(node.description.highest_term_seen, core_->term());
    const auto registration = core_->RegisterNode(node.description, now_);
    ASSERT_THAT(registration, IsOk());
    node.id = registration->node;
    node.session = registration->session;
    node.is_connected = true;
    node.inbox.clear();
    node.outbox.clear();
    // All that are in session hear of a term that this has raised, before they see its grants.
    for (const auto& other : nodes_) {
      if (other->is_connected) other->description.highest_term_seen = registration->term;
    }
    node.description.highest_term_seen = registration->term;
    const std::vector<SealedPart> parts = node.Inventory();
    const size_t half = random_.Below(parts.size() + 1);
    const auto all = absl::MakeConstSpan(parts);
    core_->InventorySlice(node.id, node.session, all.first(half), now_);
    core_->InventorySlice(node.id, node.session, all.subspan(half), now_);
    if (completes) core_->InventoryComplete(node.id, node.session, now_);
  }

  void StartPut() {
    const std::string key = PickKey();
    std::string parent = random_.OneIn(2) ? PickKey() : "";
    if (parent == key) parent.clear();
    const uint64_t size = random_.OneIn(5) ? random_.Below(40000) : random_.Below(3000);
    const PutKey keys[] = {{key, size, parent}};
    StartPutsCommand command{.caller = Me(), .request_id = ++requests_, .puts = keys};
    command.replicas = 1 + static_cast<uint32_t>(random_.Below(2));
    command.min_replicas = random_.OneIn(2) ? 1 : 0;
    const auto outcomes = core_->StartPuts(command, now_);
    ASSERT_THAT(outcomes, IsOk());
    if (!outcomes->front().status.ok()) return;
    puts_.push_back(OpenPut{key, parent, size, *outcomes->front().grant});
  }

  OpenPut TakePut() {
    std::swap(puts_[random_.Below(puts_.size())], puts_.back());
    OpenPut put = std::move(puts_.back());
    puts_.pop_back();
    return put;
  }

  // Writes and seals what the nodes let it, then tells the master, or leaves it to the reports.
  void FinishPut() {
    if (puts_.empty()) return;
    const OpenPut put = TakePut();
    sizes_[put.grant.generation] = put.size;
    absl::InlinedVector<uint32_t, 1> failed;
    for (uint32_t r = 0; r < put.grant.replicas.size(); ++r) {
      if (random_.OneIn(10) || !SealReplica(put, r)) failed.push_back(r);
    }
    if (random_.OneIn(4)) return;
    const CommitPut commits[] = {{put.grant.generation, put.grant.handle, failed}};
    const auto results = core_->CommitPuts(Me(), commits, now_);
    ASSERT_THAT(results, IsOk());
  }

  bool SealReplica(const OpenPut& put, uint32_t replica) {
    const auto& parts = put.grant.replicas[replica].parts;
    for (uint32_t p = 0; p < parts.size(); ++p) {
      FakeNode* node = NodeOf(parts[p].node);
      const SealedRecord record{.generation = put.grant.generation,
                                .key = put.key,
                                .parent = put.parent,
                                .extent = parts[p].extent,
                                .object_bytes = put.size,
                                .part_index = p,
                                .part_count = static_cast<uint32_t>(parts.size()),
                                .replica_index = replica};
      if (node == nullptr || !node->Seal(record)) return false;
      if (node->is_connected) node->outbox.push_back(record);
      if (random_.OneIn(2)) SendReports(*node);
    }
    return true;
  }

  void SendReports(FakeNode& node) {
    for (const SealedRecord& record : std::exchange(node.outbox, {})) {
      // A node says nothing about what it does not have any more.
      if (!node.Holds(record.generation, record.extent)) continue;
      const SealedPart report[] = {record.View()};
      core_->SealReport(node.id, node.session, report, now_);
    }
  }

  FakeNode* NodeOf(NodeId id) {
    for (const auto& node : nodes_) {
      if (node->id == id) return node.get();
    }
    return nullptr;
  }

  void AbortPut() {
    if (puts_.empty()) return;
    const OpenPut put = TakePut();
    std::vector<Part> pinned;
    if (random_.OneIn(2)) pinned.push_back(put.grant.replicas[0].parts[0]);
    const struct AbortPut aborts[] = {{put.grant.generation, put.grant.handle, pinned}};
    ASSERT_THAT(core_->AbortPuts(Me(), aborts, now_), IsOk());
  }

  void Get() {
    const std::string key = PickKey();
    const absl::string_view keys[] = {key};
    const absl::Duration lease = random_.OneIn(3) ? absl::Seconds(3) : absl::ZeroDuration();
    const auto outcomes = core_->Locate({.caller = Me(), .keys = keys, .lease = lease}, now_);
    ASSERT_THAT(outcomes, IsOk());
    const LocateOutcome& found = outcomes->front();
    const auto held = held_.find(key);
    const bool is_held = held != held_.end() && held->second.until > now_;
    if (!found.status.ok()) {
      // Its bytes stay where they are while their node registers anew.
      ASSERT_TRUE(!is_held || absl::IsUnavailable(found.status))
          << key << " was leased: " << found.status;
      return;
    }
    const Location& location = found.location;
    ASSERT_GT(location.generation, removed_[key]) << key << " was removed";
    ASSERT_EQ(location.size_bytes, sizes_.at(location.generation));
    for (const Replica& replica : location.replicas) {
      uint64_t payload = 0;
      for (const Part& part : replica.parts) {
        const FakeNode* node = NodeOf(part.node);
        ASSERT_NE(node, nullptr);
        ASSERT_TRUE(node->is_connected);
        ASSERT_TRUE(node->Holds(location.generation, part.extent)) << key;
        payload += part.extent.payload_bytes();
      }
      ASSERT_EQ(payload, location.size_bytes);
    }
    if (is_held) {
      ASSERT_EQ(location.generation, held->second.location.generation);
    }
    if (location.lease > absl::ZeroDuration()) {
      held_[key] = HeldLocation{location, now_ + location.lease};
    }
  }

  void Remove() {
    const std::string key = PickKey();
    const absl::string_view keys[] = {key};
    const auto outcomes = core_->Remove(Me(), keys, now_);
    ASSERT_THAT(outcomes, IsOk());
    if (!outcomes->front().status.ok()) return;
    held_.erase(key);
    // All generations that were granted so far.
    Generation newest;
    for (const auto& [generation, size] : sizes_) newest = std::max(newest, generation);
    const RemoveTicket ticket = outcomes->front().ticket;
    if (ticket == RemoveTicket{} || core_->IsRemoveDone(ticket)) {
      removed_for_good_[key] = newest;
    } else {
      removals_.emplace(ticket, std::make_pair(key, newest));
    }
    removed_[key] = newest;
  }

  void CarryOut(FakeNode& node) {
    for (const FreeCommand& command : std::exchange(node.inbox, {})) {
      node.Free(command);
      core_->CommandResult(node.id, command.session, command.command_id, absl::OkStatus(), now_);
    }
  }

  // Effects go to the nodes; what a lease protects is not freed.
  void Deliver() {
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
      FakeNode* node = NodeOf(command.node);
      if (node != nullptr && node->is_connected) node->inbox.push_back(command);
    }
    for (const NodeId id : effects.to_register) NodeOf(id)->is_connected = false;
    for (const RemoveTicket ticket : effects.removes_done) {
      const auto removal = removals_.find(ticket);
      if (removal == removals_.end()) continue;
      removed_for_good_[removal->second.first] = removal->second.second;
      removals_.erase(removal);
    }
  }

  void Disturb(FakeNode& node) {
    held_.clear();  // loss of a node ends leases
    if (node.is_connected && random_.OneIn(2)) {
      core_->NodeDisconnected(node.id, node.session, now_);
      node.is_connected = false;
      if (random_.OneIn(3)) node.LoseAll();
      return;
    }
    Connect(node, random_.OneIn(4) ? false : true);
  }

  std::map<std::string, Generation> Listing() {
    std::map<std::string, Generation> listing;
    const auto objects = core_->ListObjects({}, now_);
    for (const ObjectEntry& entry : objects->objects) {
      listing[entry.key] = entry.generation;
    }
    return listing;
  }

  // All nodes are in session, and master and nodes know the same.
  void Settle() {
    const auto is_connected = [](const auto& node) { return node->is_connected; };
    do {
      for (const auto& node : nodes_) {
        if (!node->is_connected) Connect(*node, true);
        core_->InventoryComplete(node->id, node->session, now_);
      }
      while (core_->Tick(now_)) {
      }
      for (const auto& node : nodes_) SendReports(*node);
      Deliver();
      for (const auto& node : nodes_) CarryOut(*node);
      Deliver();
    } while (!std::all_of(nodes_.begin(), nodes_.end(), is_connected));
  }

  void Restart() {
    Settle();
    const std::map<std::string, Generation> before = Listing();
    NewCore();
    held_.clear();
    puts_.clear();
    // What was not confirmed may come back; nothing of it was promised.
    removals_.clear();
    removed_ = removed_for_good_;
    for (const auto& node : nodes_) Connect(*node, true);
    const std::map<std::string, Generation> after = Listing();
    for (const auto& [key, generation] : before) {
      ASSERT_TRUE(after.contains(key)) << key << " " << ToString(generation);
      // A newer one may have been sealed after the old master had given it up.
      ASSERT_GE(after.at(key), generation) << key;
    }
    Check();
  }

  Random random_;
  CoreOptions options_;
  uint32_t term_ = 0;
  std::unique_ptr<Core> core_;
  std::vector<std::unique_ptr<FakeNode>> nodes_;
  absl::Time now_ = absl::UnixEpoch();
  uint64_t requests_ = 0;
  std::vector<OpenPut> puts_;
  std::map<Generation, uint64_t> sizes_;  // of all that may have been sealed
  std::map<std::string, HeldLocation> held_;
  std::map<RemoveTicket, std::pair<std::string, Generation>> removals_;
  std::map<std::string, Generation> removed_;
  std::map<std::string, Generation> removed_for_good_;
};

class ModelTest : public testing::TestWithParam<int> {};

TEST_P(ModelTest, NoSequenceOfCommandsBreaksAPromise) {
  Model model(static_cast<uint64_t>(GetParam()));
  for (int step = 0; step < 4000; ++step) {
    model.Step();
    if (HasFatalFailure()) {
      ADD_FAILURE() << "seed " << GetParam() << " step " << step;
      return;
    }
  }
  model.Check();
  const Totals totals = model.Status().totals;
  EXPECT_GT(totals.puts_started + totals.adopted, 0u);
}

INSTANTIATE_TEST_SUITE_P(Seeds, ModelTest, testing::Range(1, 41));

}  // namespace
}  // namespace moonpool::master
