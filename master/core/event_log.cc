#include "master/core/event_log.h"

#include <cstring>

namespace moonpool::master {
namespace {

void Append(char*& to, const void* bytes, size_t size) {
  if (size == 0) return;  // an empty text may be a null pointer, memcpy() takes none
  std::memcpy(to, bytes, size);
  to += size;
}

absl::string_view Take(const char*& from, size_t size) {
  const absl::string_view text(from, size);
  from += size;
  return text;
}

}  // namespace

EventLog::Entry EventLog::Keep(const Event& event) {
  size_t bytes = event.key.size() + event.parent.size();
  for (const EventPlace& place : event.places) {
    bytes += sizeof(Lengths) + place.node.size() + place.medium.size();
  }
  char* to = texts_.Push(bytes);
  const Entry entry{.size_bytes = event.size_bytes,
                    .generation = event.generation,
                    .text = to,
                    .text_bytes = static_cast<uint32_t>(bytes),
                    .key_bytes = static_cast<uint32_t>(event.key.size()),
                    .parent_bytes = static_cast<uint32_t>(event.parent.size()),
                    .places = static_cast<uint32_t>(event.places.size()),
                    .name_space = event.name_space,
                    .kind = event.kind,
                    .cause = event.cause};
  Append(to, event.key.data(), event.key.size());
  Append(to, event.parent.data(), event.parent.size());
  for (const EventPlace& place : event.places) {
    const Lengths lengths = {static_cast<uint32_t>(place.node.size()),
                             static_cast<uint32_t>(place.medium.size())};
    Append(to, lengths.data(), sizeof(lengths));
    Append(to, place.node.data(), place.node.size());
    Append(to, place.medium.data(), place.medium.size());
  }
  return entry;
}

Event EventLog::EventOf(const Entry& entry) {
  Event event{.kind = entry.kind,
              .cause = entry.cause,
              .name_space = entry.name_space,
              .size_bytes = entry.size_bytes,
              .generation = entry.generation};
  const char* from = entry.text;
  event.key = Take(from, entry.key_bytes);
  event.parent = Take(from, entry.parent_bytes);
  for (uint32_t i = 0; i < entry.places; ++i) {
    Lengths lengths;
    std::memcpy(lengths.data(), Take(from, sizeof(lengths)).data(), sizeof(lengths));
    EventPlace& place = event.places.emplace_back();
    place.node = Take(from, lengths[0]);
    place.medium = Take(from, lengths[1]);
  }
  return event;
}

}  // namespace moonpool::master
