#include "cli/kv_events/kv_event_wire.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "cli/kv_events/msgpack_writer.h"

namespace moonpool::cli {
namespace {

constexpr uint64_t kPageTokensMax = 1 << 20;

// Several events of the pool that are one on the wire.
struct Run {
  EventKind kind = EventKind::kCleared;
  absl::Span<const Event> events = {};
};

bool Continues(const Event& last, const Event& next) {
  if (next.kind != last.kind || KvGroupOf(next.key) != KvGroupOf(last.key)) return false;
  return next.kind == EventKind::kRemoved ||
         (next.kind == EventKind::kStored && next.parent == last.key);
}

std::vector<Run> RunsOf(absl::Span<const Event> events) {
  std::vector<Run> runs;
  for (size_t begin = 0, end = 0; begin < events.size(); begin = end) {
    end = begin + 1;
    while (end < events.size() && Continues(events[end - 1], events[end])) ++end;
    runs.push_back({events[begin].kind, events.subspan(begin, end - begin)});
  }
  return runs;
}

// Writes events field by field, with their names or without.
class EventWriter {
 public:
  EventWriter(MsgpackWriter& out, const KvEventWireOptions& options)
      : out_(out), options_(options) {}

  void Write(const Run& run) {
    switch (run.kind) {
      case EventKind::kStored: return WriteStored(run.events);
      case EventKind::kRemoved: return WriteRemoved(run.events);
      case EventKind::kCleared: return Begin("AllBlocksCleared", 0, 0);
    }
  }

 private:
  bool is_map() const { return options_.form == KvEventForm::kMap; }

  void Begin(absl::string_view type, size_t fields_of_map, size_t fields_of_array) {
    is_map() ? out_.Map(1 + fields_of_map) : out_.Array(1 + fields_of_array);
    Field("type");
    out_.Text(type);
  }
  void Field(absl::string_view name) {
    if (is_map()) out_.Text(name);
  }
  void WriteHashes(absl::Span<const Event> events) {
    Field("block_hashes");
    out_.Array(events.size());
    for (const Event& event : events) out_.Bytes(BlockHashOf(event.key));
  }
  void WriteMedium() {
    Field("medium");
    out_.Text(options_.medium);
  }

  // Older releases, which wrote arrays, knew of no groups.
  std::optional<uint64_t> GroupOf(absl::Span<const Event> events) const {
    return is_map() ? KvGroupOf(events[0].key) : std::nullopt;
  }
  void WriteGroup(std::optional<uint64_t> group) {
    if (!group.has_value()) return;
    Field("group_idx");
    out_.Number(*group);
  }

  void WriteStored(absl::Span<const Event> events) {
    const std::optional<uint64_t> group = GroupOf(events);
    Begin("BlockStored", group.has_value() ? 8 : 7, 6);
    WriteHashes(events);
    Field("parent_block_hash");
    const std::string& parent = events[0].parent;
    parent.empty() ? out_.Nil() : out_.Bytes(BlockHashOf(parent));
    Field("token_ids");
    out_.Array(0);  // a pool knows of bytes only
    Field("block_size");
    out_.Number(options_.block_size);
    Field("lora_id");
    out_.Nil();
    WriteMedium();
    if (!is_map()) return;
    Field("lora_name");
    out_.Nil();
    WriteGroup(group);
  }
  void WriteRemoved(absl::Span<const Event> events) {
    const std::optional<uint64_t> group = GroupOf(events);
    Begin("BlockRemoved", group.has_value() ? 3 : 2, 2);
    WriteHashes(events);
    WriteMedium();
    WriteGroup(group);
  }

  MsgpackWriter& out_;
  const KvEventWireOptions& options_;
};

// What a number of fields and keys is: digits and nothing else.
std::optional<uint64_t> Digits(absl::string_view text) {
  uint64_t number = 0;
  const bool are_digits = std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_isdigit(static_cast<unsigned char>(c));
  });
  if (!are_digits || !absl::SimpleAtoi(text, &number)) return std::nullopt;
  return number;
}

bool IsHash(absl::string_view segment) {
  return !segment.empty() && segment.size() % 2 == 0 &&
         std::all_of(segment.begin(), segment.end(),
                     [](char c) { return absl::ascii_isxdigit(static_cast<unsigned char>(c)); });
}

// "a/b/c": "a/b" and "c"; "c": "" and "c".
std::pair<absl::string_view, absl::string_view> SplitLast(absl::string_view key) {
  const size_t slash = key.rfind('/');
  if (slash == key.npos) return {"", key};
  return {key.substr(0, slash), key.substr(slash + 1)};
}

void EncodeHalves(absl::Span<const Event> events, const KvEventWireOptions& options,
                  size_t bytes_max, std::vector<EncodedEvents>& parts) {
  EncodedEvents encoded = EncodeKvEvents(events, options);
  if (encoded.bytes.size() <= bytes_max || events.size() == 1) {
    parts.push_back(std::move(encoded));
    return;
  }
  // The second half of a chain names the end of the first as its parent.
  const size_t half = events.size() / 2;
  EncodeHalves(events.first(half), options, bytes_max, parts);
  EncodeHalves(events.subspan(half), options, bytes_max, parts);
}

std::string BatchOf(absl::Span<const EncodedEvents> parts, double time) {
  MsgpackWriter out;
  size_t count = 0;
  for (const EncodedEvents& part : parts) count += part.count;
  out.Array(3);
  out.Real(time);
  out.Array(count);
  for (const EncodedEvents& part : parts) out.Encoded(part.bytes);
  out.Number(0);
  return out.Take();
}

}  // namespace

std::string BlockHashOf(absl::string_view key) {
  const absl::string_view last = SplitLast(key).second;
  return IsHash(last) ? absl::HexStringToBytes(last) : std::string(key);
}

std::optional<uint64_t> KvGroupOf(absl::string_view key) {
  const auto [rest, last] = SplitLast(key);
  absl::string_view part = SplitLast(rest).second;
  if (!IsHash(last) || !absl::ConsumePrefix(&part, "g")) return std::nullopt;
  return Digits(part);
}

std::optional<uint64_t> PageTokensOf(absl::string_view fingerprint) {
  std::vector<absl::string_view> fields = absl::StrSplit(fingerprint, ';');
  if (fields.size() > 1 && absl::StartsWith(fields.back(), "sha256=")) {
    fields.resize(fields.size() - 2);  // what was before it may have lost its end
  }
  for (absl::string_view field : fields) {
    field = absl::StripAsciiWhitespace(field);
    if (!absl::ConsumePrefix(&field, "page_tokens=")) continue;
    const std::optional<uint64_t> tokens = Digits(field);
    if (tokens.has_value() && *tokens >= 1 && *tokens <= kPageTokensMax) return tokens;
  }
  return std::nullopt;
}

EncodedEvents EncodeKvEvents(absl::Span<const Event> events, const KvEventWireOptions& options) {
  MsgpackWriter out;
  const std::vector<Run> runs = RunsOf(events);
  EventWriter writer(out, options);
  for (const Run& run : runs) writer.Write(run);
  return {.count = runs.size(), .bytes = out.Take()};
}

std::vector<EncodedEvents> EncodeKvEventsInParts(absl::Span<const Event> events,
                                                 const KvEventWireOptions& options,
                                                 size_t bytes_max) {
  std::vector<EncodedEvents> parts;
  if (!events.empty()) EncodeHalves(events, options, bytes_max, parts);
  return parts;
}

std::vector<std::string> JoinKvEvents(absl::Span<const EncodedEvents> parts, uint64_t batches_max,
                                      double time) {
  std::vector<std::string> batches;
  const size_t together = std::max<size_t>(1, (parts.size() + batches_max - 1) / batches_max);
  for (size_t i = 0; i < parts.size(); i += together) {
    batches.push_back(BatchOf(parts.subspan(i, together), time));
  }
  return batches;
}

}  // namespace moonpool::cli
