#include "cli/commands.h"

namespace moonpool::cli {

void AddAllCommands(CLI::App& app, Session& session) {
  AddDevCommand(app, session);
  AddStatusCommand(app, session);
  AddNodesCommand(app, session);
  AddObjectsCommand(app, session);
  AddPutCommand(app, session);
  AddGetCommand(app, session);
  AddExistsCommand(app, session);
  AddRmCommand(app, session);
  AddWhyCommand(app, session);
  AddDrainCommand(app, session);
  AddForgetCommand(app, session);
  AddEventsCommand(app, session);
  AddKvEventsCommand(app, session);
  AddReplayCommand(app, session);
  AddBenchCommand(app, session);
}

}  // namespace moonpool::cli
