// moonpool nodes: every storage node that the master knows.
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/commands.h"
#include "cli/drain_text.h"
#include "cli/output/table.h"
#include "cli/output/terminal.h"
#include "cli/output/wrap.h"
#include "common/config/units.h"
#include "common/error.h"
#include "common/human_duration.h"

namespace moonpool::cli {
namespace {

using Json = nlohmann::ordered_json;

Json ToJson(const v1::NodeStatus& node) {
  Json segments = Json::array();
  for (const v1::SegmentStatus& segment : node.segments()) {
    segments.push_back({{"segment", segment.segment()},
                        {"medium", segment.medium()},
                        {"used_bytes", segment.used_bytes()},
                        {"capacity_bytes", segment.capacity_bytes()},
                        {"largest_free_bytes", segment.largest_free_bytes()}});
  }
  Json json = {{"name", node.address().name()},
               {"node_id", node.address().node_id()},
               {"incarnation", absl::StrFormat("%016x", node.address().incarnation())},
               {"host_id", node.address().host_id()},
               {"rack", node.rack()},
               {"tcp_address", node.address().tcp_address()},
               {"shm_path", node.address().shm_path()},
               {"up", node.up()},
               {"inventory_complete", node.inventory_complete()},
               {"parts", node.parts()},
               {"used_bytes", node.used_bytes()},
               {"capacity_bytes", node.capacity_bytes()},
               {"last_heard_ms", node.last_heard_ms()},
               {"copies", node.copies()},
               {"segments", segments}};
  if (node.has_drain()) json["drain"] = DrainToJson(node);
  if (node.has_parts_max()) json["parts_max"] = node.parts_max();
  return json;
}

std::string StateOf(const v1::NodeStatus& node) {
  if (node.has_drain() && IsDone(node)) return "drained";
  if (!node.up()) return "down";
  if (node.has_drain() && node.inventory_complete()) return "draining";
  return node.inventory_complete() ? "up" : "joining";
}

std::string Heard(const v1::NodeStatus& node) {
  return HumanDuration(DurationFromMs(node.last_heard_ms()));
}

void PrintNote(const v1::NodeStatus& node, absl::string_view what) {
  const std::string note = absl::StrCat(Printable(node.address().name()), ": ", what);
  for (const std::string& line : WrapText(note, TerminalColumns(stdout))) std::puts(line.c_str());
}

void PrintText(const v1::ListNodesResponse& list) {
  Table table({{"node", Align::kLeft, Fit::kShrink},
               {"state"},
               {"parts", Align::kRight},
               {"used", Align::kRight},
               {"capacity", Align::kRight},
               {"full", Align::kRight, Fit::kDrop},
               {"heard", Align::kRight, Fit::kDrop},
               {"tcp"},
               {"rack", Align::kLeft, Fit::kDrop},
               {"shared memory", Align::kLeft, Fit::kDrop}});
  for (const v1::NodeStatus& node : list.nodes()) {
    const double full = node.capacity_bytes() == 0
                            ? 0
                            : 100.0 * static_cast<double>(node.used_bytes()) /
                                  static_cast<double>(node.capacity_bytes());
    table.AddRow({node.address().name(), StateOf(node), absl::StrCat(node.parts()),
                  HumanBytes(node.used_bytes()), HumanBytes(node.capacity_bytes()),
                  absl::StrFormat("%.0f%%", full), absl::StrCat(Heard(node), " ago"),
                  node.address().tcp_address(), node.rack().empty() ? "-" : node.rack(),
                  node.address().shm_path().empty() ? "-" : node.address().shm_path()});
  }
  if (table.empty()) {
    std::puts("no nodes; start moonpool-node with --master pointing here");
    return;
  }
  table.Print(stdout);
  for (const v1::NodeStatus& node : list.nodes()) {
    if (node.has_drain()) PrintNote(node, Describe(node));
    if (node.has_parts_max()) {
      PrintNote(node, absl::StrCat("its journal cannot grow, so it takes no more than ",
                                   node.parts_max(), " parts; its log says why"));
    }
  }
}

int Run(const Session& session) {
  const auto list = session.Link().ListNodes();
  if (!list.ok()) return Fail(session, list.status());
  if (!session.json) {
    PrintText(*list);
    return kOk;
  }
  Json nodes = Json::array();
  for (const v1::NodeStatus& node : list->nodes()) nodes.push_back(ToJson(node));
  PrintJson({{"nodes", nodes}});
  return kOk;
}

}  // namespace

void AddNodesCommand(CLI::App& app, Session& session) {
  CLI::App* const command =
      AddPoolCommand(app, session, "nodes", "Every storage node: state, memory, addresses",
                     {"moonpool nodes\nmoonpool nodes --json | jq '.nodes[] | select(.up | not)'"});
  AddJsonFlag(*command, session);
  command->callback([&session] { session.run = [&session] { return Run(session); }; });
}

}  // namespace moonpool::cli
