// The commands, one per file. Each adds itself to the program; its callback sets session.run.
#pragma once

#include "cli/command.h"

namespace moonpool::cli {

void AddDevCommand(CLI::App& app, Session& session);
void AddStatusCommand(CLI::App& app, Session& session);
void AddNodesCommand(CLI::App& app, Session& session);
void AddObjectsCommand(CLI::App& app, Session& session);
void AddPutCommand(CLI::App& app, Session& session);
void AddGetCommand(CLI::App& app, Session& session);
void AddExistsCommand(CLI::App& app, Session& session);
void AddRmCommand(CLI::App& app, Session& session);
void AddWhyCommand(CLI::App& app, Session& session);
void AddDrainCommand(CLI::App& app, Session& session);
void AddForgetCommand(CLI::App& app, Session& session);
void AddEventsCommand(CLI::App& app, Session& session);
void AddKvEventsCommand(CLI::App& app, Session& session);
void AddReplayCommand(CLI::App& app, Session& session);
void AddBenchCommand(CLI::App& app, Session& session);

// All of them, in the order of the help.
void AddAllCommands(CLI::App& app, Session& session);

}  // namespace moonpool::cli
