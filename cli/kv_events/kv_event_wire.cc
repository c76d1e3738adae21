#include "cli/kv_events/kv_event_wire.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "cli/kv_events/msgpack_writer.h"

namespace moonpool::cli {
namespace {

// Several events of the pool that are one on the wire.
struct Run {
  EventKind kind = EventKind::kCleared;
  absl::Span<const Event> events = {};
};

bool Continues(const Event& last, const Event& next) {
  if (next.kind != last.kind) return false;
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

  void WriteStored(absl::Span<const Event> events) {
    Begin("BlockStored", 7, 6);
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
  }
  void WriteRemoved(absl::Span<const Event> events) {
    Begin("BlockRemoved", 2, 2);
    WriteHashes(events);
    WriteMedium();
  }

  MsgpackWriter& out_;
  const KvEventWireOptions& options_;
};

}  // namespace

std::string BlockHashOf(absl::string_view key) {
  const size_t slash = key.rfind('/');
  const absl::string_view last = slash == key.npos ? key : key.substr(slash + 1);
  const bool is_hex =
      !last.empty() && last.size() % 2 == 0 && std::all_of(last.begin(), last.end(), [](char c) {
        return absl::ascii_isxdigit(static_cast<unsigned char>(c));
      });
  return is_hex ? absl::HexStringToBytes(last) : std::string(key);
}

std::optional<uint64_t> PageTokensOf(absl::string_view fingerprint) {
  for (absl::string_view field : absl::StrSplit(fingerprint, ';')) {
    field = absl::StripAsciiWhitespace(field);
    uint64_t tokens = 0;
    if (absl::ConsumePrefix(&field, "page_tokens=") && absl::SimpleAtoi(field, &tokens)) {
      return tokens;
    }
  }
  return std::nullopt;
}

std::string EncodeKvEvents(absl::Span<const Event> events, double time,
                           const KvEventWireOptions& options) {
  MsgpackWriter out;
  const std::vector<Run> runs = RunsOf(events);
  out.Array(3);
  out.Real(time);
  out.Array(runs.size());
  EventWriter writer(out, options);
  for (const Run& run : runs) writer.Write(run);
  out.Number(0);
  return out.Take();
}

}  // namespace moonpool::cli
