// moonpool exists: which of some keys are readable, and why the others are not.
#include "cli/commands.h"
#include "cli/key_results.h"
#include "cli/values.h"

namespace moonpool::cli {
namespace {

int Run(const Session& session, const std::vector<std::string>& keys) {
  const auto client = session.Connect();
  if (!client.ok()) return Fail(session, client.status());
  return PrintKeyResults(session, keys, (*client)->Exists(keys), "stored");
}

}  // namespace

void AddExistsCommand(CLI::App& app, Session& session) {
  CLI::App* const command =
      AddPoolCommand(app, session, "exists", "Whether keys are readable now, and why not",
                     {"moonpool exists block-1 block-2 && echo both are there",
                      "Exit code 3 when one of them is not there."});
  auto keys = std::make_shared<std::vector<std::string>>();
  AddJsonFlag(*command, session);
  AddKeysOption(*command, "KEY", keys.get(), "The keys")->required();
  command->callback(
      [&session, keys] { session.run = [&session, keys] { return Run(session, *keys); }; });
}

}  // namespace moonpool::cli
