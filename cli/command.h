// What all commands share: the options of the connection, how results and errors are printed, and
// the exit codes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "cli/master_link/master_link.h"
#include "moonpool/client.h"
#include "nlohmann/json.hpp"

namespace moonpool::cli {

enum ExitCode : int { kOk = 0, kFailed = 1, kUsage = 2, kNotFound = 3 };

// Options of the whole program, and the command that was chosen. One per process.
struct Session {
  std::vector<std::string> masters = {"127.0.0.1:7400"};
  std::string name_space = "default";
  absl::Duration timeout = absl::Seconds(10);
  bool json = false;
  std::function<int()> run;  // the chosen command, once the arguments are read

  MasterLink Link() const { return MasterLink(masters, timeout); }
  // A client of the pool; the hint of an unreachable master is ours.
  absl::StatusOr<std::unique_ptr<Client>> Connect(ClientOptions options = {}) const;
};

// Adds a command: its name, one line about it, examples for the end of its help.
CLI::App* AddCommand(CLI::App& app, const std::string& name, const std::string& summary,
                     const std::string& examples);
// The same for a command that talks to a running pool.
CLI::App* AddPoolCommand(CLI::App& app, Session& session, const std::string& name,
                         const std::string& summary, const std::string& examples);
// --master, --namespace, --timeout.
void AddConnectionOptions(CLI::App& app, Session& session);
void AddJsonFlag(CLI::App& app, Session& session);

// A check whose description stays out of the help: the option's own text says it.
CLI::Validator Quiet(CLI::Validator validator);

// Options that are checked while the arguments are read: "256MiB", "30s", a key as text.
CLI::Option* AddBytesOption(CLI::App& app, const std::string& name, uint64_t* bytes,
                            const std::string& help);
CLI::Option* AddDurationOption(CLI::App& app, const std::string& name, absl::Duration* duration,
                               const std::string& help);
CLI::Option* AddKeyOption(CLI::App& app, const std::string& name, std::string* key,
                          const std::string& help);
CLI::Option* AddKeysOption(CLI::App& app, const std::string& name, std::vector<std::string>* keys,
                           const std::string& help);

// One line on stderr; with --json also {"error": ...} on stdout. Returns the exit code.
int Fail(const Session& session, const absl::Status& status);
int ExitCodeOf(const absl::Status& status);

// {"code": "NOT_FOUND", "reason": "EVICTED", "message": ..., "hint": ...}; OK: {"code": "OK"}.
nlohmann::ordered_json StatusToJson(const absl::Status& status);
void PrintJson(const nlohmann::ordered_json& json);

// --json [FILE] for commands whose JSON is a document to keep: without FILE it goes to stdout, and
// text does not. Sets session.json too.
void AddJsonFileOption(CLI::App& app, Session& session, std::string* file);
// To a file; "-" is stdout, empty nothing.
absl::Status WriteJson(const std::string& file, const nlohmann::ordered_json& json);

// "3m 20s": two units, for people.
std::string HumanDuration(uint64_t millis);

}  // namespace moonpool::cli
