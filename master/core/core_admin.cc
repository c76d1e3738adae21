// What operators ask: status, nodes, objects, and why.
#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/error.h"
#include "common/human_duration.h"
#include "common/status_macros.h"
#include "master/core/core.h"
#include "master/core/core_state.h"

namespace moonpool::master {
namespace {

constexpr uint32_t kDefaultListLimit = 1000;
constexpr uint32_t kMaxListLimit = 10000;

NodeStatus StatusIn(const NodeRecord& node, const ReplicaKeeper& keeper, absl::Time now) {
  const auto use = [&](ByteUse kind) { return node.bytes[static_cast<size_t>(kind)]; };
  NodeStatus status{.address = node.address(),
                    .rack = node.description.rack,
                    .is_up = node.is_up(),
                    .inventory_complete = node.inventory_complete,
                    .parts = node.parts.size(),
                    .granted_bytes = use(ByteUse::kGranted),
                    .condemned_bytes = use(ByteUse::kCondemned),
                    .last_heard = now - node.last_heard,
                    .copies = keeper.CopiesOf(node.index),
                    .drain = keeper.DrainOf(node)};
  if (node.is_journal_full()) status.parts_max = node.parts_max;
  for (const NodeSegment& segment : node.segments) {
    status.used_bytes += segment.allocator.used_bytes();
    status.capacity_bytes += segment.allocator.capacity_bytes();
    status.segments.push_back(
        SegmentStatus{.segment = segment.spec.segment,
                      .medium = segment.spec.medium,
                      .used_bytes = segment.allocator.used_bytes(),
                      .capacity_bytes = segment.allocator.capacity_bytes(),
                      .largest_free_bytes = segment.allocator.largest_free_bytes()});
  }
  return status;
}

absl::string_view StateName(ErrorReason reason) {
  switch (reason) {
    case ErrorReason::kEvicted: return "evicted";
    case ErrorReason::kRemoved: return "removed";
    case ErrorReason::kNodeLost: return "node_lost";
    case ErrorReason::kExpired: return "expired";
    case ErrorReason::kGrantAborted: return "refused";
    default: return "never_stored";
  }
}

}  // namespace

std::optional<NodeAddressView> Core::AddressOf(NodeId node) const {
  const NodeRecord* record = state_->nodes.Find(node);
  if (record == nullptr) return std::nullopt;
  const RegisterNodeCommand& description = record->description;
  return NodeAddressView{.node = record->id,
                         .name = description.name,
                         .incarnation = description.incarnation,
                         .host_id = description.host_id,
                         .tcp_address = description.tcp_address,
                         .shm_path = description.shm_path};
}

StatusResult Core::GetStatus(absl::Time now) const {
  const CoreState& s = *state_;
  const absl::Duration takeover = s.TakeoverHold(now);
  const auto use = [&](ByteUse kind) { return s.bytes[static_cast<size_t>(kind)]; };
  StatusResult status{.term = s.term,
                      .nodes_up = s.nodes.up_count(),
                      .nodes_known = static_cast<uint32_t>(s.nodes.by_name().size()),
                      .objects = s.live_objects,
                      .used_bytes = use(ByteUse::kLive) + use(ByteUse::kGranted) +
                                    use(ByteUse::kCondemned) + use(ByteUse::kPartial),
                      .capacity_bytes = s.nodes.capacity_bytes(),
                      .granted_bytes = use(ByteUse::kGranted),
                      .condemned_bytes = use(ByteUse::kCondemned),
                      .open_grants = s.grants.size() - s.spares.size(),
                      .spare_grants = s.spares.size(),
                      .live_leases = s.leases.size(),
                      .leased_bytes = s.leases.bytes(),
                      .tombstones = s.tombstones.size(),
                      .short_objects = s.keeper.short_objects(),
                      .copies_in_flight = s.keeper.copies().size(),
                      .copies_waiting = s.keeper.queue().size(),
                      .adopted_objects = takeover > absl::ZeroDuration() ? s.adopted_objects : 0,
                      .takeover = takeover,
                      .eviction_policy = std::string(s.policy->name()),
                      .totals = s.totals};
  for (size_t id = 0; id < s.namespaces.size(); ++id) {
    const NamespaceRecord& record = s.namespaces[static_cast<NamespaceId>(id)];
    status.namespaces.push_back(NamespaceStatus{.name = record.name,
                                                .fingerprint = record.fingerprint,
                                                .objects = record.objects,
                                                .bytes = record.live_bytes,
                                                .leased_bytes = record.leased_bytes});
  }
  return status;
}

std::vector<NodeStatus> Core::ListNodes(absl::Time now) const {
  std::vector<NodeStatus> nodes;
  for (const auto& [name, index] : state_->nodes.by_name()) {
    nodes.push_back(StatusIn(state_->nodes[index], state_->keeper, now));
  }
  return nodes;
}

absl::StatusOr<ListObjectsResult> Core::ListObjects(const ListObjectsCommand& command,
                                                    absl::Time now) const {
  const CoreState& s = *state_;
  ASSIGN_OR_RETURN(const NamespaceId name_space, s.namespaces.Resolve(command.caller.name_space));
  uint32_t slot = 0;
  if (!command.page_token.empty() && !absl::SimpleAtoi(command.page_token, &slot)) {
    return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kBadArgument,
                     "the page token is none of this master",
                     {.hint = "use next_page_token as it came"});
  }
  const uint32_t limit =
      command.limit == 0 ? kDefaultListLimit : std::min(command.limit, kMaxListLimit);
  const uint64_t end =
      std::min<uint64_t>(s.objects.slot_count(), uint64_t{slot} + s.options.list_slots_per_call);
  ListObjectsResult result;
  for (; slot < end && result.objects.size() < limit; ++slot) {
    const ObjectSlot& object = s.objects[slot];
    if (object.state != ObjectState::kLive || object.name_space != name_space ||
        !absl::StartsWith(s.objects.KeyOf(slot), command.prefix)) {
      continue;
    }
    result.objects.push_back(s.EntryOf(slot, now));
  }
  if (slot < s.objects.slot_count()) result.next_page_token = absl::StrCat(slot);
  return result;
}

ObjectEntry CoreState::EntryOf(SlotIndex slot, absl::Time now) const {
  const ObjectSlot& object = objects[slot];
  ObjectEntry entry{.key = std::string(objects.KeyOf(slot)),
                    .size_bytes = object.size_bytes,
                    .generation = object.generation,
                    .replicas = ReplicaCount(slot),
                    .wished_replicas = object.wished(),
                    .children = object.live_children,
                    .is_leased = object.is_leased,
                    .age = Ago(object.stored_at_cs, now)};
  if (object.parent != kNoSlot) entry.parent = std::string(objects.KeyOf(object.parent));
  objects.ForEachPart(slot, [&](const StoredPart& part) {
    ++entry.parts;
    const std::string& name = nodes[part.node].description.name;
    if (std::find(entry.nodes.begin(), entry.nodes.end(), name) == entry.nodes.end()) {
      entry.nodes.push_back(name);
    }
  });
  return entry;
}

absl::StatusOr<WhyResult> Core::Why(absl::string_view name_space_name, absl::string_view key,
                                    absl::Time now) const {
  const CoreState& s = *state_;
  ASSIGN_OR_RETURN(const NamespaceId name_space, s.namespaces.Resolve(name_space_name));
  RETURN_IF_ERROR(s.CheckKey(key));
  const uint64_t hash = KeyHash(name_space, key);
  const SlotIndex slot = s.objects.Find(hash, name_space, key);
  WhyResult why;
  if (slot == kNoSlot || s.objects[slot].state == ObjectState::kAbsent) {
    const absl::Status miss = s.AbsentBecause(hash, key, now);
    why.state = std::string(StateName(ReasonOf(miss)));
    why.explanation = std::string(miss.message());
    // Perhaps it was asked because a put of this key does not return.
    if (const absl::Duration hold = s.TakeoverHold(now); hold > absl::ZeroDuration()) {
      absl::StrAppend(&why.explanation,
                      "; this master took over: if the pool is full, a put waits ",
                      HumanDuration(hold), " more");
    }
    if (const std::optional<Obituary> obituary = s.obituaries.Find(hash)) {
      why.generation = obituary->generation;
      why.ago = s.Ago(obituary->when_cs, now);
      if (obituary->cause == DeathCause::kDamaged) why.state = "damaged";
      if (obituary->cause == DeathCause::kEvicted) why.policy = std::string(s.policy->name());
    }
    if (slot != kNoSlot) why.children = s.objects[slot].live_children;
    return why;
  }
  const ObjectEntry entry = s.EntryOf(slot, now);
  why.size_bytes = entry.size_bytes;
  why.generation = entry.generation;
  why.parent = entry.parent;
  why.children = entry.children;
  why.wished_replicas = entry.wished_replicas;
  why.replicas = s.ReplicasOf(slot, /*only_up=*/false);
  if (s.objects[slot].state == ObjectState::kGranted) {
    why.state = "being_written";
    why.explanation = absl::StrCat("a writer holds a grant for ",
                                   HumanDuration(s.grants.At(slot).deadline - now), " more");
    return why;
  }
  why.state = "stored";
  why.ago = entry.age;
  if (const Lease* lease = s.leases.Find(slot)) why.lease = lease->until - now;
  const size_t offered = s.ReplicasOf(slot, /*only_up=*/true).size();
  why.is_adopted = s.objects[slot].is_adopted;
  const std::string age = HumanDuration(entry.age);
  why.explanation = absl::StrCat(
      why.is_adopted ? "stored under an earlier master, known since its "
                       "node reported it "
                     : "stored ",
      age, " ago, ", offered, " of ", entry.replicas, " replicas on nodes that are up",
      entry.replicas < entry.wished_replicas
          ? absl::StrCat("; ", entry.wished_replicas, " were asked for")
          : "",
      entry.children > 0 ? "; its children go before it" : "", entry.is_leased ? "; leased" : "");
  if (const absl::Time held = s.HeldUntil(slot); now < held) {
    absl::StrAppend(&why.explanation, "; not evicted for ", HumanDuration(held - now),
                    " more: a master before may have leased it");
  }
  return why;
}

}  // namespace moonpool::master
