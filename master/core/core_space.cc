// Room for replicas: what is free first, then what eviction gives.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/error.h"
#include "common/human_duration.h"
#include "master/core/core_state.h"

namespace moonpool::master {
namespace {

// After this many times the needed bytes were evicted and no hole is large enough, the replica is
// put together from many holes, in whatever failure domain they are.
constexpr uint64_t kJoinAfter = 4;

// To a young master nodes are on their way; for those of an old one somebody has to do something.
constexpr absl::Duration kNodesComeWithin = absl::Milliseconds(100);

}  // namespace

absl::Status CoreState::TooFewNodes(uint32_t min_replicas, absl::Time now) const {
  const size_t usable = nodes.usable().size();
  const bool is_young = now < started + options.node_loss_timeout;
  const absl::Duration retry_after = is_young ? kNodesComeWithin : absl::ZeroDuration();
  if (usable > 0) {
    return MakeError(
        absl::StatusCode::kResourceExhausted, ErrorReason::kNoNodes,
        absl::StrCat(min_replicas, " replicas need as many nodes; ", usable, " take grants now"),
        {.hint = "ask for fewer replicas, or set min_replicas", .retry_after = retry_after});
  }
  std::string draining;
  for (const auto& [name, index] : nodes.by_name()) {
    if (nodes[index].is_usable() && nodes[index].is_draining) draining = name;
  }
  return MakeError(
      absl::StatusCode::kUnavailable, ErrorReason::kNoNodes,
      absl::StrCat("no storage node takes grants now (", nodes.by_name().size(), " known)"),
      {.hint = draining.empty()
                   ? "start moonpool-node, or wait until one has reported its inventory"
                   : absl::StrCat("those that are up are drained: `moonpool drain ", draining,
                                  " --cancel`, or start another moonpool-node"),
       .retry_after = retry_after});
}

absl::StatusOr<PlacedReplicas> CoreState::PlaceReplicas(const PutContext& put,
                                                        uint64_t size_bytes) {
  const size_t usable = nodes.usable().size();
  if (usable < put.min_replicas) return TooFewNodes(put.min_replicas, put.now);
  PlacedReplicas placed;
  while (placed.size() < std::min<size_t>(put.replicas, usable)) {
    auto replica = PlaceOne(PlacementRequest{.size_bytes = size_bytes,
                                             .writer_host = put.writer_host,
                                             .replicas = put.replicas,
                                             .others = placed,
                                             .now = put.now},
                            put.now);
    if (!replica.has_value()) break;
    placed.push_back(*std::move(replica));
  }
  if (placed.size() >= put.min_replicas) return placed;
  for (const PlacedReplica& replica : placed) placement.GiveBack(replica);
  return NoSpace(size_bytes + kPartHeaderBytes, put.now);
}

std::optional<PlacedReplica> CoreState::PlaceOne(const PlacementRequest& request, absl::Time now) {
  if (auto placed = placement.Place(request)) return placed;
  // What has run out and was not collected yet comes before eviction; first what frees bytes.
  uint32_t work = options.work_per_tick;
  const uint64_t before = changes;
  ExpireCondemned(now, &work);
  ExpireGrants(now, &work);
  ExpireLeases(now, &work);
  if (changes != before) {
    if (auto placed = placement.Place(request)) return placed;
  }
  return EvictFor(request, now);
}

std::optional<PlacedReplica> CoreState::EvictFor(const PlacementRequest& request, absl::Time now) {
  const uint64_t need = request.size_bytes + kPartHeaderBytes;
  const uint64_t reclaimable = ReclaimableFor(request);
  uint64_t evicted = 0;
  uint64_t try_at = need;
  uint64_t try_anyhow_at = kJoinAfter * need;
  for (uint32_t i = 0; i < options.evictions_per_put && need <= reclaimable; ++i) {
    const Evicted step = EvictOne(now);
    if (step.bytes == 0) break;
    evicted += step.bytes;
    if (LargestHoleAt(step.parts) >= need || evicted >= try_at) {
      if (auto placed = placement.Place(request)) return placed;
      if (evicted >= try_at) try_at += std::max<uint64_t>(need / 4, 1);
    }
    if (evicted >= try_anyhow_at) {
      if (auto placed = placement.PlaceAnyhow(request)) return placed;
      try_anyhow_at += need;
    }
  }
  return placement.PlaceAnyhow(request);
}

uint64_t CoreState::ReclaimableFor(const PlacementRequest& request) const {
  uint64_t live = 0;
  uint64_t bytes_free = 0;
  for (const NodeIndex index : nodes.usable()) {
    const bool is_taken =
        std::any_of(request.others.begin(), request.others.end(), [&](const PlacedReplica& other) {
          return std::any_of(other.begin(), other.end(),
                             [&](const StoredPart& part) { return part.node == index; });
        });
    if (is_taken) continue;
    const NodeRecord& node = nodes[index];
    const uint64_t live_there = node.bytes[static_cast<size_t>(ByteUse::kLive)];
    const bool can_have_room = node.parts_max > 0 && live_there > 0;
    if (!node.has_room_for_part() && !can_have_room) continue;
    live += live_there;
    bytes_free += node.free_bytes();
  }
  const uint64_t all_live = bytes[static_cast<size_t>(ByteUse::kLive)];
  return bytes_free + std::min(live, all_live - std::min(all_live, leases.bytes()));
}

CoreState::Evicted CoreState::EvictOne(absl::Time now, SlotIndex spare) {
  // What is there twice although it is not hot any more is of the least use.
  if (const uint64_t dropped = keeper.DropExtra(now, spare); dropped > 0) {
    return {.bytes = dropped};
  }
  for (;;) {
    const std::optional<SlotIndex> victim = policy->PickVictim();
    if (!victim.has_value() || *victim == spare) return {};
    if (ParkIfUseless(*victim)) continue;
    if (now < HeldUntil(*victim)) return {};
    Evicted evicted{.bytes = FootprintOf(*victim)};
    objects.ForEachPart(*victim, [&](const StoredPart& part) {
      if (nodes[part.node].takes_grants()) evicted.parts.push_back(part);
    });
    Erase(*victim, DeathCause::kEvicted, now);
    ++totals.evicted;
    totals.evicted_bytes += evicted.bytes;
    return evicted;
  }
}

uint64_t CoreState::LargestHoleAt(const StoredParts& parts) const {
  uint64_t largest = 0;
  for (const StoredPart& part : parts) {
    const NodeSegment& segment = nodes[part.node].segments[part.segment];
    largest = std::max(largest, segment.allocator.largest_free_bytes());
  }
  return largest;
}

bool CoreState::ParkIfUseless(SlotIndex slot) {
  bool is_useful = false;
  objects.ForEachPart(
      slot, [&](const StoredPart& part) { is_useful = is_useful || nodes[part.node].is_usable(); });
  if (is_useful) return false;
  objects[slot].is_parked = true;
  objects.ForEachPart(slot, [&](const StoredPart& part) {
    nodes[part.node].parked.emplace_back(slot, objects[slot].generation);
  });
  UpdateEvictable(slot);
  return true;
}

void CoreState::Unpark(NodeRecord& node) {
  for (const auto& [slot, generation] : std::exchange(node.parked, {})) {
    if (objects.FindGeneration(slot, generation) == nullptr) continue;
    objects[slot].is_parked = false;
    UpdateEvictable(slot);
  }
}

absl::Status CoreState::NoSpace(uint64_t need_bytes, absl::Time now) const {
  uint64_t capacity = 0;
  uint64_t free_bytes = 0;
  uint64_t largest = 0;
  for (const NodeIndex index : nodes.usable()) {
    capacity += nodes[index].capacity_bytes();
    free_bytes += nodes[index].free_bytes();
    largest = std::max(largest, nodes[index].largest_free_bytes());
  }
  const auto use = [&](ByteUse kind) { return bytes[static_cast<size_t>(kind)]; };
  const absl::Duration hold = TakeoverHold(now);
  const std::string takeover =
      hold > absl::ZeroDuration()
          ? absl::StrCat("; for ", HumanDuration(hold), " more this master evicts none of the ",
                         adopted_objects,
                         " objects that nodes brought along: the one before may have leased them")
          : "";
  return MakeError(
      absl::StatusCode::kResourceExhausted, ErrorReason::kNoSpace,
      absl::StrCat("needs ", need_bytes, " bytes; capacity ", capacity, ": live ",
                   use(ByteUse::kLive), " (leased ", leases.bytes(), ", ", live_parents,
                   " objects with live children), open grants ", use(ByteUse::kGranted),
                   ", pinned or still leased after removal ", use(ByteUse::kCondemned),
                   ", waiting for missing parts ", use(ByteUse::kPartial), ", free ", free_bytes,
                   "; largest free range ", largest, takeover),
      {.hint = "wait for space, or spill; what is leased, granted or pinned comes back by itself",
       .retry_after = absl::Milliseconds(100)});
}

}  // namespace moonpool::master
