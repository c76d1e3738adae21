// moonpool objects: what is stored in a namespace, page by page.
#include <algorithm>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/commands.h"
#include "cli/output/key_text.h"
#include "cli/output/table.h"
#include "cli/values.h"
#include "common/config/units.h"
#include "common/error.h"
#include "common/human_duration.h"
#include "common/status_macros.h"
#include "common/types.h"

namespace moonpool::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kPageObjects = 10'000;
constexpr uint64_t kObjectsMax = 10'000'000;  // they are held here before they are printed

struct Arguments {
  std::string prefix;
  uint64_t limit = 100;
};

struct Listing {
  std::vector<v1::ObjectEntry> objects;
  bool has_more = false;
};

absl::StatusOr<Listing> List(const Session& session, const Arguments& arguments) {
  MasterLink link = session.Link();
  Listing listing;
  std::string page_token;
  do {
    const uint64_t left = arguments.limit - listing.objects.size();
    ASSIGN_OR_RETURN(v1::ListObjectsResponse page,
                     link.ListObjects(session.name_space, arguments.prefix, page_token,
                                      static_cast<uint32_t>(std::min(left, kPageObjects))));
    for (v1::ObjectEntry& entry : *page.mutable_objects()) {
      listing.objects.push_back(std::move(entry));
    }
    page_token = page.next_page_token();
  } while (!page_token.empty() && listing.objects.size() < arguments.limit);
  listing.has_more = !page_token.empty();
  return listing;
}

Json ToJson(const v1::ObjectEntry& object) {
  return {{"key", KeyToText(object.key())},
          {"size_bytes", object.size_bytes()},
          {"generation", ToString(Generation{object.generation()})},
          {"nodes", std::vector<std::string>(object.nodes().begin(), object.nodes().end())},
          {"parts", object.parts()},
          {"replicas", object.replicas()},
          {"wished_replicas", object.wished_replicas()},
          {"parent", KeyToText(object.parent())},
          {"children", object.children()},
          {"leased", object.leased()},
          {"age_ms", object.age_ms()}};
}

std::string Age(const v1::ObjectEntry& object) {
  return HumanDuration(DurationFromMs(object.age_ms()));
}

// "2", or "1 of 2" while one is missing, or more than the writer asked for.
std::string Replicas(const v1::ObjectEntry& object) {
  const bool is_as_wished =
      object.wished_replicas() == 0 || object.replicas() == object.wished_replicas();
  return is_as_wished ? absl::StrCat(object.replicas())
                      : absl::StrCat(object.replicas(), " of ", object.wished_replicas());
}

void PrintText(const Listing& listing) {
  Table table({{"key", Align::kLeft, Fit::kShrink},
               {"size", Align::kRight},
               {"age", Align::kRight},
               {"nodes", Align::kLeft, Fit::kShrinkThenDrop},
               {"parent", Align::kLeft, Fit::kShrinkThenDrop},
               {"parts", Align::kRight, Fit::kDrop},
               {"replicas", Align::kRight, Fit::kDrop},
               {"children", Align::kRight, Fit::kDrop},
               {"leased", Align::kLeft, Fit::kDrop},
               {"generation", Align::kLeft, Fit::kDrop}});
  for (const v1::ObjectEntry& object : listing.objects) {
    table.AddRow({KeyToText(object.key()), HumanBytes(object.size_bytes()), Age(object),
                  absl::StrJoin(object.nodes(), ","),
                  object.parent().empty() ? "-" : KeyToText(object.parent()),
                  absl::StrCat(object.parts()), Replicas(object), absl::StrCat(object.children()),
                  object.leased() ? "yes" : "no", ToString(Generation{object.generation()})});
  }
  if (table.empty()) {
    std::puts("no objects");
    return;
  }
  table.Print(stdout);
  if (listing.has_more) std::puts("... and more: raise --limit or narrow --prefix");
}

int Run(const Session& session, const Arguments& arguments) {
  const auto listing = List(session, arguments);
  if (!listing.ok()) return Fail(session, listing.status());
  if (!session.json) {
    PrintText(*listing);
    return kOk;
  }
  Json objects = Json::array();
  for (const v1::ObjectEntry& object : listing->objects) objects.push_back(ToJson(object));
  PrintJson({{"objects", objects}, {"has_more", listing->has_more}});
  return kOk;
}

}  // namespace

void AddObjectsCommand(CLI::App& app, Session& session) {
  CLI::App* const command =
      AddPoolCommand(app, session, "objects", "The objects of a namespace: size, place, chain",
                     {"moonpool objects --prefix llama/ --limit 20\nmoonpool objects --json"});
  auto arguments = std::make_shared<Arguments>();
  AddJsonFlag(*command, session);
  AddPrefixOption(*command, "--prefix", &arguments->prefix, "Only keys that start with this");
  AddNumberOption(*command, "--limit", &arguments->limit, {1, kObjectsMax},
                  "At most this many [100]");
  command->callback([&session, arguments] {
    session.run = [&session, arguments] { return Run(session, *arguments); };
  });
}

}  // namespace moonpool::cli
