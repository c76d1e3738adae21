// What becomes of objects, told to those who follow it.
#include <algorithm>

#include "master/core/core.h"
#include "master/core/core_state.h"

namespace moonpool::master {

Event CoreState::EventOf(SlotIndex slot, EventKind kind) const {
  const ObjectSlot& object = objects[slot];
  Event event{.kind = kind,
              .name_space = object.name_space,
              .size_bytes = object.size_bytes,
              .generation = object.generation,
              .key = objects.KeyOf(slot)};
  if (object.parent != kNoSlot) event.parent = objects.KeyOf(object.parent);
  objects.ForEachPart(slot, [&](const StoredPart& part) {
    const NodeRecord& node = nodes[part.node];
    const EventPlace place{.node = node.description.name,
                           .medium = node.segments[part.segment].spec.medium};
    if (std::find(event.places.begin(), event.places.end(), place) == event.places.end()) {
      event.places.push_back(place);
    }
  });
  return event;
}

void CoreState::NoteStored(SlotIndex slot) {
  if (!events.is_on()) return events.Skip();
  events.Add(EventOf(slot, EventKind::kStored));
}

void CoreState::NoteGone(SlotIndex slot, DeathCause cause) {
  if (!events.is_on()) return events.Skip();
  Event event = EventOf(slot, EventKind::kRemoved);
  event.cause = cause;
  events.Add(event);
}

void Core::KeepEvents(bool is_on) {
  EventLog& events = state_->events;
  if (is_on == events.is_on()) return;
  is_on ? events.Start() : events.Stop();
}

const EventLog& Core::events() const { return state_->events; }

std::optional<uint32_t> Core::StoredFrom(uint32_t from, std::optional<NamespaceId> only,
                                         size_t events_max, std::vector<Event>* stored) const {
  const CoreState& s = *state_;
  const uint64_t end = std::min<uint64_t>(s.objects.slot_count(),
                                          uint64_t{from} + s.options.snapshot_slots_per_call);
  size_t left = events_max;
  for (; from < end && left > 0; ++from) {
    const ObjectSlot& object = s.objects[from];
    if (object.state != ObjectState::kLive) continue;
    if (only.has_value() && object.name_space != *only) continue;
    stored->push_back(s.EventOf(from, EventKind::kStored));
    --left;
  }
  if (from >= s.objects.slot_count()) return std::nullopt;
  return from;
}

std::optional<NamespaceId> Core::FindNamespace(absl::string_view name) const {
  const absl::StatusOr<NamespaceId> id = state_->namespaces.Resolve(name);
  if (!id.ok()) return std::nullopt;
  return *id;
}

const std::string& Core::NamespaceName(NamespaceId id) const { return state_->namespaces[id].name; }

}  // namespace moonpool::master
