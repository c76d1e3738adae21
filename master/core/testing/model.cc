#include "master/core/testing/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/error.h"
#include "common/testing/status_matchers.h"

namespace moonpool::master {
namespace {

constexpr int kKeys = 60;
constexpr int kNodes = 5;
constexpr uint64_t kSegmentBytes = 60000;

CoreOptions SmallOptions(Random& random) {
  CoreOptions options;
  options.work_per_tick = 7;
  options.copy_work_per_tick = 7;
  options.node_loss_timeout = absl::Seconds(3);
  options.max_grant = absl::Seconds(8);
  options.min_part_bytes = 1000;
  options.stripe_bytes = 20000;
  options.partial_timeout = absl::Seconds(5);
  options.takeover_hold = absl::Seconds(random.OneIn(3) ? -1 : 0);
  options.registry_open = absl::ZeroDuration();
  options.copies_per_node = 1 + static_cast<uint32_t>(random.Below(4));
  options.copy_timeout = absl::Seconds(2);
  options.copy_retry = absl::Seconds(1);
  options.hot_reads = 3;
  options.hot_window = absl::Seconds(2);
  options.hot_max_replicas = static_cast<uint32_t>(random.Below(3));
  options.node_ramp = absl::Seconds(5);
  if (random.OneIn(3)) options.max_debts = 1 + static_cast<uint32_t>(random.Below(6));
  return options;
}

}  // namespace

Model::Model(const ModelOptions& options)
    : random_(options.seed),
      options_(SmallOptions(random_)),
      has_damage_(options.has_damage),
      keeps_state_(random_.OneIn(2)) {
  options_.eviction_policy = options.eviction_policy;
  // Some followers fall behind.
  options_.max_events = 4 + static_cast<uint32_t>(options.seed % 60);
  options_.snapshot_slots_per_call = 5;
  NewCore();
  for (int i = 0; i < kNodes; ++i) {
    RegisterNodeCommand description{.name = absl::StrCat("n", i),
                                    .incarnation = Incarnation{1},
                                    .host_id = absl::StrCat("h", i / 2),
                                    .wire_minor = kCopyMinor};
    for (uint32_t s = 0; s <= static_cast<uint32_t>(i % 2); ++s) {
      description.segments.push_back(SegmentSpec{SegmentId{s}, "dram", kSegmentBytes});
    }
    nodes_.push_back(std::make_unique<FakeNode>(std::move(description)));
    Connect(*nodes_.back(), true);
  }
  Deliver();
}

void Model::Step() {
  const uint64_t dice = random_.Below(1000);
  if (dice < 240) {
    StartPut();
  } else if (dice < 450) {
    FinishPut();
  } else if (dice < 470) {
    AbortPut();
  } else if (dice < 490) {
    CommitPut();
  } else if (dice < 670) {
    Get();
  } else if (dice < 705) {
    Remove();
  } else if (dice < 850) {
    WorkOnNode(PickNode());
  } else if (dice < 940) {
    PassTime(absl::Milliseconds(static_cast<int64_t>(random_.Below(500))));
  } else if (dice < 960) {
    Disturb(PickNode());
  } else if (dice < 980) {
    if (has_damage_) Damage(PickNode());
  } else if (dice < 984) {
    Drain(PickNode());
  } else if (dice < 988) {
    Forget(PickNode());
  } else if (dice < 996) {
    Check();
  } else if (dice < 999) {
    Restart();
  } else {
    Rest();
  }
  Deliver();
  if (requests_ % 3 == 0) follower_->Advance(*core_, 6);
}

void Model::Check() {
  ASSERT_THAT(core_->CheckInvariants(), IsOk());
  ExpectFollowed();
}

void Model::NewCore() {
  term_ = std::max(term_, disk_.term.value) + 1;
  saved_ = 0;
  const Random random(random_.Next());
  core_ = keeps_state_ ? std::make_unique<Core>(options_, Term{term_}, random, disk_)
                       : std::make_unique<Core>(options_, Term{term_}, random);
  core_->KeepEvents(true);
  const bool is_first = follower_ == nullptr;
  follower_ = std::make_unique<EventFollower>(
      is_first ? EventCursorOptions{} : EventCursorOptions{.resume = follower_->last().last});
}

std::string Model::PickKey() { return absl::StrCat("key", random_.Below(kKeys)); }

FakeNode* Model::NodeOf(NodeId id) {
  for (const auto& node : nodes_) {
    if (node->id == id) return node.get();
  }
  return nullptr;
}

Caller Model::Me() {
  return Caller{.client_id = 1,
                .host_id = random_.OneIn(2) ? "h0" : "h1",
                .timeout = absl::Seconds(static_cast<int64_t>(1 + random_.Below(10)))};
}

void Model::PassTime(absl::Duration time) {
  const NamedObjects before = NamedNow();
  now_ += time;
  core_->Tick(now_);
  ExpectExcused(before);
}

void Model::StartPut() {
  if (random_.OneIn(4)) return random_.OneIn(4) ? TakeSpares() : UseSpare();
  const std::string key = PickKey();
  std::string parent = random_.OneIn(2) ? PickKey() : "";
  if (parent == key) parent.clear();
  const uint64_t size = random_.OneIn(5) ? random_.Below(40000) : random_.Below(3000);
  const PutKey keys[] = {{key, size, parent}};
  StartPutsCommand command{.caller = Me(), .request_id = ++requests_, .puts = keys};
  command.replicas = 1 + static_cast<uint32_t>(random_.Below(3));
  command.min_replicas = random_.OneIn(2) ? 1 : 0;
  const auto outcomes = core_->StartPuts(command, now_);
  ASSERT_THAT(outcomes, IsOk());
  if (!outcomes->front().status.ok()) return;
  const uint32_t says = random_.OneIn(4) ? 0 : command.replicas;
  puts_.push_back(OpenPut{key, parent, size, *outcomes->front().grant, says});
  newest_ = std::max(newest_, puts_.back().grant.generation);
}

Model::OpenPut Model::TakePut() {
  std::swap(puts_[random_.Below(puts_.size())], puts_.back());
  OpenPut put = std::move(puts_.back());
  puts_.pop_back();
  return put;
}

// Writes and seals what the nodes let it, then tells the master, or leaves it to the reports.
void Model::FinishPut() {
  if (puts_.empty()) return;
  const OpenPut put = TakePut();
  sizes_[put.grant.generation] = put.size;
  absl::InlinedVector<uint32_t, 1> failed;
  for (uint32_t r = 0; r < put.grant.replicas.size(); ++r) {
    if (random_.OneIn(10) || !SealReplica(put, r)) failed.push_back(r);
  }
  if (random_.OneIn(4)) return;
  sealed_.push_back({put.grant.generation, put.grant.handle, std::move(failed)});
  if (!random_.OneIn(3)) CommitPut();
}

void Model::CommitPut() {
  if (sealed_.empty()) return;
  std::swap(sealed_[random_.Below(sealed_.size())], sealed_.back());
  const SealedPut put = std::move(sealed_.back());
  sealed_.pop_back();
  if (!put.key.empty()) return CommitSpare(put);
  const struct CommitPut commits[] = {{put.generation, put.handle, put.failed}};
  ASSERT_THAT(core_->CommitPuts(Me(), commits, now_), IsOk());
}

void Model::TakeSpares() {
  const uint64_t size = random_.OneIn(2) ? 200 : 2000;
  const SpareWish wish{.size_bytes = size,
                       .replicas = 1 + static_cast<uint32_t>(random_.Below(2)),
                       .count = 1 + static_cast<uint32_t>(random_.Below(4))};
  for (Grant& grant : core_->GrantSpares(Me(), wish, now_)) {
    newest_ = std::max(newest_, grant.generation);
    spares_.push_back({std::move(grant), size});
  }
}

// Writes what the nodes take, then says so, gives it up, or is not heard of again.
void Model::UseSpare() {
  if (spares_.empty()) return;
  std::swap(spares_[random_.Below(spares_.size())], spares_.back());
  const SpareHeld spare = std::move(spares_.back());
  spares_.pop_back();
  const OpenPut put{.key = PickKey(),
                    .parent = random_.OneIn(2) ? "key0" : "",
                    .size = spare.size,
                    .grant = spare.grant,
                    .replicas = static_cast<uint32_t>(spare.grant.replicas.size())};
  const Generation generation = put.grant.generation;
  sizes_[generation] = put.size;
  in_flight_.insert(generation);
  bool is_written = true;
  for (uint32_t r = 0; r < put.grant.replicas.size(); ++r) {
    is_written = !random_.OneIn(10) && SealReplica(put, r) && is_written;
  }
  if (!is_written || random_.OneIn(10)) {
    const struct AbortPut aborts[] = {{generation, put.grant.handle, {}, put.key}};
    ASSERT_THAT(core_->AbortPuts(Me(), aborts, now_), IsOk());
    return;
  }
  if (random_.OneIn(8)) return;
  sealed_.push_back({generation, put.grant.handle, {}, put.key, put.parent});
  if (!random_.OneIn(3)) CommitPut();
}

void Model::CommitSpare(const SealedPut& put) {
  const struct CommitPut commits[] = {{put.generation, put.handle, {}, put.key, put.parent}};
  const auto outcomes = core_->CommitPuts(Me(), commits, now_);
  ASSERT_THAT(outcomes, IsOk());
  const CommitOutcome& outcome = outcomes->front();
  if (outcome.status.ok()) {
    const WhyResult why = *core_->Why("", put.key, now_);
    ASSERT_EQ(why.state, "stored") << put.key;
    ASSERT_EQ(why.generation, put.generation) << put.key;
    in_flight_.erase(put.generation);
  } else if (outcome.is_pending) {
    sealed_.push_back(put);  // and asks again
  } else if (ReasonOf(outcome.status) != ErrorReason::kGrantAborted) {
    in_flight_.erase(put.generation);  // it is nowhere
    left_in_flight_.erase(put.generation);
  }
}

bool Model::SealReplica(const OpenPut& put, uint32_t replica) {
  const auto& parts = put.grant.replicas[replica].parts;
  uint64_t object_offset = 0;
  for (uint32_t p = 0; p < parts.size(); ++p) {
    FakeNode* const node = NodeOf(parts[p].node);
    const SealedRecord record{.generation = put.grant.generation,
                              .key = put.key,
                              .parent = put.parent,
                              .extent = parts[p].extent,
                              .object_bytes = put.size,
                              .part_index = p,
                              .part_count = static_cast<uint32_t>(parts.size()),
                              .replica_index = replica,
                              .replicas = put.replicas,
                              .object_offset = object_offset};
    if (node == nullptr || !node->Seal(record)) return false;
    object_offset += parts[p].extent.payload_bytes();
    if (node->is_connected) node->outbox.push_back(record);
    if (random_.OneIn(2)) SendReports(*node);
  }
  return true;
}

void Model::AbortPut() {
  if (puts_.empty()) return;
  const OpenPut put = TakePut();
  std::vector<Part> pinned;
  if (random_.OneIn(2)) pinned.push_back(put.grant.replicas[0].parts[0]);
  const struct AbortPut aborts[] = {{put.grant.generation, put.grant.handle, pinned}};
  ASSERT_THAT(core_->AbortPuts(Me(), aborts, now_), IsOk());
}

void Model::Get() {
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
  ASSERT_TRUE(found.location.generation > removed_[key] ||
              left_in_flight_.contains(found.location.generation))
      << key << " was removed";
  ExpectRightParts(key, found.location);
  if (is_held) {
    ASSERT_EQ(found.location.generation, held->second.location.generation);
  }
  // What is damaged is on its way out.
  const auto is_whole = [&](const Replica& replica) {
    return IsWhole(found.location.generation, replica, /*in_session=*/true);
  };
  const bool are_whole =
      std::all_of(found.location.replicas.begin(), found.location.replicas.end(), is_whole);
  if (found.location.lease > absl::ZeroDuration() && are_whole) {
    held_[key] = HeldLocation{found.location, now_ + found.location.lease};
  }
}

void Model::ExpectRightParts(const std::string& key, const Location& location) {
  ASSERT_EQ(location.size_bytes, sizes_.at(location.generation));
  for (const Replica& replica : location.replicas) {
    uint64_t payload = 0;
    for (const Part& part : replica.parts) {
      const FakeNode* const node = NodeOf(part.node);
      ASSERT_NE(node, nullptr);
      ASSERT_TRUE(node->is_connected);
      const SealedRecord* const record = node->Find(location.generation, part.extent);
      // A reader sees that it is not there. Rest() looks whether the master learns of it.
      ASSERT_TRUE(record != nullptr || has_damage_)
          << key << " " << ToString(location.generation) << " at " << node->description.name << " "
          << ToString(part.extent);
      // What no reader can see: the parts are of one cut.
      if (record != nullptr) {
        ASSERT_EQ(record->object_offset, payload) << key;
      }
      payload += part.extent.payload_bytes();
    }
    ASSERT_EQ(payload, location.size_bytes);
  }
}

void Model::Remove() {
  const std::string key = PickKey();
  const absl::string_view keys[] = {key};
  const auto outcomes = core_->Remove(Me(), keys, now_);
  ASSERT_THAT(outcomes, IsOk());
  const RemoveOutcome& outcome = outcomes->front();
  if (absl::IsNotFound(outcome.status)) removed_[key] = newest_;
  if (!outcome.status.ok()) return;
  held_.erase(key);
  if (outcome.ticket == RemoveTicket{} || core_->IsRemoveDone(outcome.ticket)) {
    removed_for_good_[key] = newest_;
  } else {
    removals_.emplace(outcome.ticket, std::make_pair(key, newest_));
  }
  removed_[key] = newest_;
}

}  // namespace moonpool::master
