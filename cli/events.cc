// moonpool events: what is stored and what becomes of it, one line per event.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/commands.h"
#include "cli/output/key_text.h"
#include "cli/output/wrap.h"
#include "cli/stop_token.h"
#include "common/config/units.h"
#include "common/standard_files.h"
#include "common/types.h"
#include "moonpool/events.h"

namespace moonpool::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Arguments {
  bool follow = false;
  bool snapshot = false;
  bool all_namespaces = false;

  bool has_snapshot() const { return snapshot || !follow; }
};

const char* NameOf(EventKind kind) {
  switch (kind) {
    case EventKind::kStored: return "stored";
    case EventKind::kRemoved: return "removed";
    case EventKind::kCleared: return "cleared";
  }
  return "";
}

const char* NameOf(EventReset reset) {
  switch (reset) {
    case EventReset::kNone: return "";
    case EventReset::kStart: return "start";
    case EventReset::kTooOld: return "too_old";
    case EventReset::kOtherLog: return "other_log";
    case EventReset::kTooSlow: return "too_slow";
  }
  return "";
}

// "evicted", "removed", ...: as `moonpool why` says it.
std::string Why(const Event& event) {
  switch (event.reason) {
    case ErrorReason::kChecksumMismatch: return "damaged";
    case ErrorReason::kStaleGeneration: return "replaced";
    default: return absl::AsciiStrToLower(ReasonName(event.reason));
  }
}

Json ToJson(const Event& event) {
  Json json = {{"kind", NameOf(event.kind)}, {"sequence", event.sequence}};
  if (event.kind == EventKind::kCleared) return json;
  json["namespace"] = event.name_space;
  json["key"] = KeyToText(event.key);
  json["parent"] = KeyToText(event.parent);
  json["size_bytes"] = event.size_bytes;
  json["generation"] = ToString(Generation{event.generation});
  Json& places = json["places"] = Json::array();
  for (const EventPlace& place : event.places) {
    places.push_back({{"node", place.node}, {"medium", place.medium}});
  }
  if (event.kind == EventKind::kRemoved) json["reason"] = Why(event);
  return json;
}

std::string ToText(const Event& event) {
  const std::string places =
      absl::StrJoin(event.places, ",", [](std::string* out, const EventPlace& place) {
        absl::StrAppend(out, Printable(place.node), "/", Printable(place.medium));
      });
  std::string line = absl::StrCat(NameOf(event.kind), "  ", KeyToText(event.key), "  ",
                                  HumanBytes(event.size_bytes), "  ", places);
  if (event.kind == EventKind::kRemoved) absl::StrAppend(&line, "  ", Why(event));
  if (!event.parent.empty()) absl::StrAppend(&line, "  after ", KeyToText(event.parent));
  return line;
}

void Print(const Session& session, const EventBatch& batch) {
  // What a reader of lines cannot see in the events.
  if (batch.reset != EventReset::kNone && batch.reset != EventReset::kStart && !session.json) {
    std::printf("reset (%s): what was said before is void\n", NameOf(batch.reset));
  }
  for (const Event& event : batch.events) {
    if (!session.json && event.kind == EventKind::kCleared) continue;
    Json json;
    if (session.json) {
      json = ToJson(event);
      if (event.kind == EventKind::kCleared) json["reset"] = NameOf(batch.reset);
    }
    std::puts((session.json ? json.dump() : ToText(event)).c_str());
  }
}

int Run(const Session& session, const Arguments& arguments) {
  const StopToken stop;
  const bool is_named = !arguments.all_namespaces;
  if (is_named && !arguments.follow) {
    if (const absl::Status known = session.CheckNamespace(); !known.ok()) {
      return Fail(session, known);
    }
  }
  bool is_checked = !is_named || !arguments.follow;
  const auto stream =
      EventStream::Open({.masters = session.masters,
                         .name_space = arguments.all_namespaces ? "" : session.name_space,
                         .live_only = !arguments.has_snapshot(),
                         .give_up_after = session.timeout});
  if (!stream.ok()) return Fail(session, stream.status());
  absl::Status written;
  const absl::Status end = (*stream)->Run(
      [&](const EventBatch& batch) {
        if (!std::exchange(is_checked, true)) WarnOfUnknownNamespace(session);
        Print(session, batch);
        written = FlushStandardOutput();
        return written.ok() && (arguments.follow || !batch.is_whole);
      },
      stop.token());
  if (absl::IsCancelled(end)) return kOk;
  if (absl::IsUnavailable(end)) return Fail(session, WithNoMasterHint(end));
  if (!end.ok()) return Fail(session, end);
  return written.ok() ? kOk : Fail(session, written);
}

}  // namespace

void AddEventsCommand(CLI::App& app, Session& session) {
  CLI::App* const command = AddPoolCommand(
      app, session, "events", "What is stored, and what becomes of it",
      {"moonpool events                        what is stored now, an event each\n"
       "moonpool events --follow               what happens from now on, until Ctrl-C\n"
       "moonpool events --follow --snapshot --all-namespaces --json",
       "With --json each event is a line. A line of kind \"cleared\" makes void what was said\n"
       "before it: what is stored follows."});
  auto arguments = std::make_shared<Arguments>();
  AddJsonFlag(*command, session);
  command->add_flag("--follow", arguments->follow, "Go on with what happens, until Ctrl-C");
  command->add_flag("--snapshot", arguments->snapshot,
                    "Begin with what is stored; so without --follow");
  command->add_flag("--all-namespaces", arguments->all_namespaces, "Of all, not of one");
  command->callback([&session, arguments] {
    session.run = [&session, arguments] { return Run(session, *arguments); };
  });
}

}  // namespace moonpool::cli
