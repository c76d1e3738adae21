// Reads a command line, or says in words that help what is wrong with it.
#pragma once

#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"

namespace moonpool::cli {

// What --help or --version ask to be printed, instead of running a command; else empty.
// INVALID_ARGUMENT: unknown commands and options come with the nearest known one, everything else
// with the help to read.
absl::StatusOr<std::string> ParseCommandLine(CLI::App& app, int argc, const char* const* argv);

// Whether the arguments ask for JSON, also when they could not be parsed.
bool WantsJson(int argc, const char* const* argv);

}  // namespace moonpool::cli
