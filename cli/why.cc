// moonpool why: where an object is, or why it is not there.
#include <memory>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "cli/commands.h"
#include "cli/output/key_text.h"
#include "common/config/units.h"
#include "common/types.h"

namespace moonpool::cli {
namespace {

using Json = nlohmann::ordered_json;
using NodeNames = absl::flat_hash_map<uint32_t, std::string>;

NodeNames NamesOf(const v1::WhyResponse& why) {
  NodeNames names;
  for (const v1::NodeAddress& node : why.nodes()) names[node.node_id()] = node.name();
  return names;
}

Json ToJson(const std::string& key, const v1::WhyResponse& why) {
  NodeNames names = NamesOf(why);
  Json replicas = Json::array();
  for (const v1::Replica& replica : why.replicas()) {
    Json parts = Json::array();
    for (const v1::Part& part : replica.parts()) {
      parts.push_back({{"node", names[part.node_id()]},
                       {"segment", part.extent().segment()},
                       {"offset", part.extent().offset()},
                       {"length", part.extent().length()}});
    }
    replicas.push_back(parts);
  }
  Json json = {{"key", KeyToText(key)},
               {"state", why.state()},
               {"explanation", why.explanation()},
               {"size_bytes", why.size_bytes()},
               {"generation", ToString(Generation{why.generation()})},
               {"replicas", replicas},
               {"parent", KeyToText(why.parent())},
               {"children", why.children()},
               {"lease_ms", why.lease_ms()},
               {"ago_ms", why.ago_ms()}};
  if (!why.policy().empty()) json["policy"] = why.policy();
  return json;
}

std::string DescribeReplica(const v1::Replica& replica, NodeNames& names) {
  std::vector<std::string> parts;
  for (const v1::Part& part : replica.parts()) {
    parts.push_back(absl::StrFormat("%s, segment %d at %d (%s)", names[part.node_id()],
                                    part.extent().segment(), part.extent().offset(),
                                    HumanBytes(part.extent().length())));
  }
  return absl::StrJoin(parts, "; ");
}

void PrintText(const std::string& key, const v1::WhyResponse& why) {
  std::string state = why.state();
  std::replace(state.begin(), state.end(), '_', ' ');
  absl::PrintF("%s: %s\n", KeyToText(key), state);
  if (!why.explanation().empty()) absl::PrintF("  %s\n", why.explanation());
  if (why.size_bytes() > 0) absl::PrintF("  size        %s\n", HumanBytes(why.size_bytes()));
  NodeNames names = NamesOf(why);
  for (const v1::Replica& replica : why.replicas()) {
    absl::PrintF("  replica     %s\n", DescribeReplica(replica, names));
  }
  if (!why.parent().empty()) absl::PrintF("  parent      %s\n", KeyToText(why.parent()));
  if (why.children() > 0) absl::PrintF("  children    %d\n", why.children());
  if (why.lease_ms() > 0) absl::PrintF("  leased for  %s\n", HumanDuration(why.lease_ms()));
  if (why.generation() != 0) {
    absl::PrintF("  generation  %s\n", ToString(Generation{why.generation()}));
  }
}

int Run(const Session& session, const std::string& key) {
  const auto why = session.Link().Why(session.name_space, key);
  if (!why.ok()) return Fail(session, why.status());
  if (session.json) {
    PrintJson(ToJson(key, *why));
  } else {
    PrintText(key, *why);
  }
  return kOk;
}

}  // namespace

void AddWhyCommand(CLI::App& app, Session& session) {
  CLI::App* const command = AddPoolCommand(
      app, session, "why",
      "Where an object is, or why it is not: never stored, evicted, removed, its node lost ...",
      "moonpool why block-1\nmoonpool why block-1 --json | jq -r .state");
  auto key = std::make_shared<std::string>();
  AddJsonFlag(*command, session);
  AddKeyOption(*command, "KEY", key.get(), "The key")->required();
  command->callback(
      [&session, key] { session.run = [&session, key] { return Run(session, *key); }; });
}

}  // namespace moonpool::cli
