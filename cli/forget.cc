// moonpool forget: a node will never come back.
#include "cli/commands.h"
#include "cli/output/wrap.h"
#include "cli/values.h"

namespace moonpool::cli {
namespace {

int Run(const Session& session, const std::string& name) {
  const absl::Status status = session.Link().ForgetNode(name);
  if (!status.ok()) return Fail(session, status);
  if (session.json) {
    PrintJson({{"node", name}, {"forgotten", true}});
  } else {
    std::printf("forgot %s; its objects are lost unless another node has them\n",
                Printable(name).c_str());
  }
  return kOk;
}

}  // namespace

void AddForgetCommand(CLI::App& app, Session& session) {
  CLI::App* const command = AddPoolCommand(
      app, session, "forget", "A node that is away will never come back",
      {"moonpool forget node-2", "Removals stop waiting for it. A node that is up is refused."});
  auto name = std::make_shared<std::string>();
  AddJsonFlag(*command, session);
  AddNodeOption(*command, "NODE", name.get(), "The node's name, as `moonpool nodes` shows it")
      ->required()
      ->type_name("");
  command->callback(
      [&session, name] { session.run = [&session, name] { return Run(session, *name); }; });
}

}  // namespace moonpool::cli
