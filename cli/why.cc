// moonpool why: where an object is, or why it is not there.
#include <algorithm>
#include <memory>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "cli/commands.h"
#include "cli/output/fields.h"
#include "cli/output/key_text.h"
#include "cli/values.h"
#include "common/config/units.h"
#include "common/error.h"
#include "common/human_duration.h"
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
               {"ago_ms", why.ago_ms()},
               {"adopted", why.adopted()},
               {"wished_replicas", why.wished_replicas()}};
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
  Fields fields;
  fields.Add("key", KeyToText(key));
  fields.Add("state", state);
  if (!why.explanation().empty()) fields.Add("why", why.explanation());
  if (why.size_bytes() > 0) fields.Add("size", HumanBytes(why.size_bytes()));
  NodeNames names = NamesOf(why);
  for (const v1::Replica& replica : why.replicas()) {
    fields.Add("replica", DescribeReplica(replica, names));
  }
  if (!why.parent().empty()) fields.Add("parent", KeyToText(why.parent()));
  if (why.children() > 0) fields.Add("children", absl::StrCat(why.children()));
  if (why.lease_ms() > 0) {
    fields.Add("leased for", HumanDuration(DurationFromMs(why.lease_ms())));
  }
  if (why.generation() != 0) {
    fields.Add("generation", ToString(Generation{why.generation()}));
  }
  fields.Print(stdout);
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
  CLI::App* const command =
      AddPoolCommand(app, session, "why", "Where an object is, or why it is gone",
                     {"moonpool why block-1\nmoonpool why block-1 --json | jq -r .state",
                      "Exit code 0 whatever it finds; `moonpool exists` tells by its code."});
  auto key = std::make_shared<std::string>();
  AddJsonFlag(*command, session);
  AddKeyOption(*command, "KEY", key.get(), "The key")->required();
  command->callback(
      [&session, key] { session.run = [&session, key] { return Run(session, *key); }; });
}

}  // namespace moonpool::cli
