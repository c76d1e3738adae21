#include "cli/drain_text.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/config/units.h"

namespace moonpool::cli {

bool IsDone(const v1::NodeStatus& node) {
  if (node.drain().has_done()) return node.drain().done();
  // A master that is older: nothing is left of what it knows, and it knows everything.
  return node.drain().parts_left() == 0 && node.up() && node.inventory_complete();
}

std::string Describe(const v1::NodeStatus& node) {
  const v1::DrainStatus& drain = node.drain();
  std::vector<std::string> said;
  const bool is_done = IsDone(node);
  if (is_done) {
    said.emplace_back("drained");
  } else {
    said.push_back(absl::StrCat("draining, ", drain.parts_left(),
                                drain.parts_left() == 1 ? " part left (" : " parts left (",
                                HumanBytes(drain.bytes_left()), ")"));
  }
  said.push_back(
      absl::StrCat(drain.moved_objects(), " moved (", HumanBytes(drain.moved_bytes()), ")"));
  const auto stuck = [&](uint64_t count, const char* why) {
    if (!is_done && count > 0) said.push_back(absl::StrCat(count, " ", why));
  };
  stuck(drain.without_node(),
        "cannot move: every other node is down, drained, or has a replica (then readers go there)");
  stuck(drain.without_room(),
        "find no room: what may be evicted for them leaves no hole of their size");
  stuck(drain.unreadable(), "wait for nodes that are away, or are damaged");
  stuck(drain.leased(), "wait for the end of a lease");
  if (!is_done && !node.up()) {
    const bool is_lost = drain.parts_left() == 0 && drain.bytes_left() == 0;
    said.emplace_back(is_lost ? "the node is down, and what it held is not known to be elsewhere"
                              : "the node is down");
  } else if (!is_done && !node.inventory_complete()) {
    said.emplace_back("the node is still reporting what it holds");
  } else if (!is_done && drain.parts_left() == 0 && drain.bytes_left() > 0) {
    said.emplace_back("what is left has no other half yet, and goes within a minute without it");
  }
  return absl::StrJoin(said, "; ");
}

nlohmann::ordered_json DrainToJson(const v1::NodeStatus& node) {
  const v1::DrainStatus& drain = node.drain();
  return {{"done", IsDone(node)},
          {"parts_left", drain.parts_left()},
          {"bytes_left", drain.bytes_left()},
          {"moved_objects", drain.moved_objects()},
          {"moved_bytes", drain.moved_bytes()},
          {"without_node", drain.without_node()},
          {"without_room", drain.without_room()},
          {"unreadable", drain.unreadable()},
          {"leased", drain.leased()}};
}

}  // namespace moonpool::cli
