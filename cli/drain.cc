// moonpool drain: a node is to be empty.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "cli/commands.h"
#include "cli/drain_text.h"
#include "cli/output/progress.h"
#include "cli/output/wrap.h"
#include "cli/values.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/human_duration.h"

namespace moonpool::cli {
namespace {

constexpr absl::Duration kPoll = absl::Milliseconds(500);

struct Arguments {
  std::string node;
  bool cancel = false;
  bool wait = false;
  absl::Duration longest = absl::Minutes(10);
};

absl::StatusOr<v1::NodeStatus> Look(MasterLink& link, const std::string& name) {
  const absl::StatusOr<v1::ListNodesResponse> list = link.ListNodes();
  if (!list.ok()) return list.status();
  for (const v1::NodeStatus& node : list->nodes()) {
    if (node.address().name() != name) continue;
    if (node.has_drain()) return node;
    return MakeError(absl::StatusCode::kAborted, ErrorReason::kUnspecified,
                     absl::StrCat("the drain of ", name, " was called off meanwhile"));
  }
  return MakeError(absl::StatusCode::kNotFound, ErrorReason::kBadArgument,
                   absl::StrCat("the master does not know ", name, " any more"),
                   {.hint = "`moonpool nodes` lists those that it knows", .node = name});
}

void Show(const v1::NodeStatus& node, const Clock& clock, std::optional<Progress>* progress) {
  const v1::DrainStatus& drain = node.drain();
  if (!progress->has_value()) {
    progress->emplace("draining " + Printable(node.address().name()),
                      drain.parts_left() + drain.moved_objects(), clock);
  }
  (*progress)->Update(drain.moved_objects(), Describe(node));
}

// A master that is out of reach for a while, or gives its place to another, ends no wait.
absl::StatusOr<v1::NodeStatus> Wait(const Session& session, const Arguments& arguments) {
  MasterLink link = session.Link();
  const SteadyClock clock;
  const absl::Time deadline = clock.Now() + arguments.longest;
  std::optional<Progress> progress;
  for (;;) {
    absl::StatusOr<v1::NodeStatus> node = Look(link, arguments.node);
    const bool may_return = absl::IsUnavailable(node.status());
    if (!node.ok() && !may_return) return node;
    if (node.ok() && IsDone(*node)) return node;
    if (clock.Now() >= deadline) {
      if (!node.ok()) return node;
      return MakeError(
          absl::StatusCode::kDeadlineExceeded, ErrorReason::kDeadline,
          absl::StrCat("after ", HumanDuration(arguments.longest), ", ", Describe(*node)),
          {.hint = "the drain goes on; see `moonpool nodes`", .node = arguments.node});
    }
    if (node.ok()) Show(*node, clock, &progress);
    absl::SleepFor(std::min(kPoll, deadline - clock.Now()));
  }
}

int Print(const Session& session, const v1::NodeStatus& node) {
  if (session.json) {
    PrintJson({{"node", node.address().name()}, {"draining", true}, {"drain", DrainToJson(node)}});
  } else {
    std::printf("%s: %s\n", Printable(node.address().name()).c_str(), Describe(node).c_str());
  }
  return kOk;
}

int Run(const Session& session, const Arguments& arguments) {
  MasterLink link = session.Link();
  const absl::Status status = link.DrainNode(arguments.node, arguments.cancel);
  if (!status.ok()) return Fail(session, status);
  if (arguments.cancel) {
    if (session.json) {
      PrintJson({{"node", arguments.node}, {"draining", false}});
    } else {
      std::printf("%s takes objects again; what has moved stays where it is\n",
                  Printable(arguments.node).c_str());
    }
    return kOk;
  }
  const absl::StatusOr<v1::NodeStatus> node =
      arguments.wait ? Wait(session, arguments) : Look(link, arguments.node);
  if (!node.ok()) return Fail(session, node.status());
  return Print(session, *node);
}

}  // namespace

void AddDrainCommand(CLI::App& app, Session& session) {
  CLI::App* const command = AddPoolCommand(
      app, session, "drain", "Empty a node: what it holds moves to others",
      {"moonpool drain node-2 --wait\nmoonpool drain node-2 --cancel",
       "It takes nothing more, and its objects move, the hottest first, as fast as the\n"
       "master's --repair-bandwidth allows. Nothing is lost when it is stopped once it\n"
       "is drained. `moonpool nodes` shows how far it has come and what cannot move. A\n"
       "drain goes on under the next master, and when the node comes back."});
  auto arguments = std::make_shared<Arguments>();
  AddJsonFlag(*command, session);
  AddNodeOption(*command, "NODE", &arguments->node, "The node's name, as `moonpool nodes` shows it")
      ->required()
      ->type_name("");
  CLI::Option* const cancel =
      command->add_flag("--cancel", arguments->cancel, "The node is to take objects again");
  CLI::Option* const wait =
      command->add_flag("--wait", arguments->wait, "Return when the node is empty")
          ->excludes(cancel);
  AddTimeoutOption(*command, "--longest", &arguments->longest, "Wait no longer than this [10m]")
      ->needs(wait);
  command->callback([&session, arguments] {
    session.run = [&session, arguments] { return Run(session, *arguments); };
  });
}

}  // namespace moonpool::cli
