// How a command ends: its exit code, its error for people and for scripts, its JSON.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace moonpool::cli {

struct Session;

enum ExitCode : int {
  kOk = 0,
  kFailed = 1,    // the error says why and what to do
  kUsage = 2,     // the command line makes no sense; nothing was done
  kNotFound = 3,  // the pool was asked, and it has no such key or node
};

// The same, for the help of every command.
extern const char kExitCodesHelp[];

// NOT_FOUND from the pool is kNotFound. A file of this host that is not there is a failure, and so
// is a namespace that nobody opened: nobody should take either for a miss.
int ExitCodeOf(const absl::Status& status);

// One line on stderr, without control characters, whatever names are in it (and the last words of
// a child program, where it ended); with --json also {"error": ...} on stdout. Returns the exit
// code.
int Fail(const Session& session, const absl::Status& status);

// One line on stderr, of a command that goes on: what is the matter, and what it does about it.
void Warn(absl::string_view what, absl::string_view then);

// INVALID_ARGUMENT: what is wrong with the command line, and what to write instead.
absl::Status UsageError(absl::string_view message, std::string hint);
// As Fail, but the line has no code, and the exit code is kUsage.
int FailUsage(const Session& session, const absl::Status& status);

// The error of a file on this host: "open x: No such file or directory".
absl::Status FileError(int error, absl::string_view what, absl::string_view file, std::string hint);
// "Not found" is what the pool says of keys; a file name that names nothing is the caller's
// mistake.
absl::Status WithoutNotFound(const absl::Status& status, std::string hint);

// {"code": "NOT_FOUND", "reason": "EVICTED", "message": ..., "hint": ...}; OK: {"code": "OK"}.
nlohmann::ordered_json StatusToJson(const absl::Status& status);
void PrintJson(const nlohmann::ordered_json& json);
// Whether WriteJson will be able to: asked before the work whose result it is. Makes the file.
absl::Status CheckJsonFile(const std::string& file);
// To a file; "-" is stdout, empty nothing.
absl::Status WriteJson(const std::string& file, const nlohmann::ordered_json& json);

// To be called last: what a command printed has to have arrived, or it failed after all.
int Finish(const Session& session, int exit_code);

}  // namespace moonpool::cli
