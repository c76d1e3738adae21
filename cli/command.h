// What all commands share: what was asked for on the command line, and how a command is added.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cli/master_link/master_link.h"
#include "cli/outcome.h"
#include "moonpool/client.h"

namespace moonpool::cli {

// Options of the whole program, and the command that was chosen. One per process.
struct Session {
  std::vector<std::string> masters = {"127.0.0.1:7400"};
  std::string name_space = "default";
  std::string fingerprint = {};  // empty = the namespace must be there
  absl::Duration timeout = absl::Seconds(10);
  bool json = false;
  std::function<int()> run;  // the chosen command, once the arguments are read

  MasterLink Link() const { return MasterLink(masters, timeout); }
  // The status of a pool that has memory. The nodes of a master that began a moment ago are waited
  // for, as clients do. UNAVAILABLE/NO_NODES: there are none.
  absl::StatusOr<v1::GetStatusResponse> PoolWithNodes() const;
  // NOT_FOUND/NAMESPACE_UNKNOWN: nobody has opened it, or its name is mistyped.
  absl::Status CheckNamespace() const;
  // A client of the pool; the hint of an unreachable master says how to get one, too.
  absl::StatusOr<std::unique_ptr<Client>> Connect(ClientOptions options = {}) const;
};

// For commands that wait: it may be opened at any time, but it may be mistyped, too.
void WarnOfUnknownNamespace(const Session& session);

// For the end of a command's help: lines to try, then what else there is to know.
struct HelpEnd {
  std::string examples;
  std::string notes = {};
};

// Adds a command: its name, one line about it, the end of its help.
CLI::App* AddCommand(CLI::App& app, const std::string& name, const std::string& summary,
                     const HelpEnd& end);
// The same for a command that talks to a running pool.
CLI::App* AddPoolCommand(CLI::App& app, Session& session, const std::string& name,
                         const std::string& summary, const HelpEnd& end);
// --master, --namespace, --fingerprint, --timeout.
void AddConnectionOptions(CLI::App& app, Session& session);
void AddJsonFlag(CLI::App& app, Session& session);
// --json [FILE] for commands whose JSON is a document to keep: without FILE it goes to stdout, and
// text does not. Sets session.json too.
void AddJsonFileOption(CLI::App& app, Session& session, std::string* file);

}  // namespace moonpool::cli
