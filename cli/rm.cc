// moonpool rm: remove objects.
#include "cli/commands.h"
#include "cli/key_results.h"
#include "cli/values.h"

namespace moonpool::cli {
namespace {

int Run(const Session& session, const std::vector<std::string>& keys) {
  const auto client = session.Connect();
  if (!client.ok()) return Fail(session, client.status());
  return PrintKeyResults(session, keys, (*client)->Remove(keys), "removed");
}

}  // namespace

void AddRmCommand(CLI::App& app, Session& session) {
  CLI::App* const command = AddPoolCommand(
      app, session, "rm", "Remove objects; they do not come back",
      {"moonpool rm block-1 block-2", "Exit code 3 when one of them was not there."});
  auto keys = std::make_shared<std::vector<std::string>>();
  AddJsonFlag(*command, session);
  AddKeysOption(*command, "KEY", keys.get(), "The keys")->required();
  command->callback(
      [&session, keys] { session.run = [&session, keys] { return Run(session, *keys); }; });
}

}  // namespace moonpool::cli
