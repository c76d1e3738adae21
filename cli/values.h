// Options whose values are checked while the command line is read: a wrong one is an error that
// names the option and what is allowed.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace moonpool::cli {

// A CLI11 validator of what `check` accepts: an error is "OPTION: message; hint".
CLI::Validator Accepts(std::function<absl::Status(const std::string&)> check);

// Both ends are allowed.
struct NumberRange {
  uint64_t min = 0;
  uint64_t max = std::numeric_limits<uint64_t>::max();
};

CLI::Option* AddNumberOption(CLI::App& app, const std::string& name, NumberRange range,
                             std::function<void(uint64_t)> set, const std::string& help);
template <typename T>
CLI::Option* AddNumberOption(CLI::App& app, const std::string& name, T* value, NumberRange range,
                             const std::string& help) {
  return AddNumberOption(
      app, name, range, [value](uint64_t number) { *value = static_cast<T>(number); }, help);
}
CLI::Option* AddRealOption(CLI::App& app, const std::string& name, double* value, double min,
                           double max, const std::string& help);
// "256MiB"
CLI::Option* AddBytesOption(CLI::App& app, const std::string& name, uint64_t* bytes,
                            const std::string& help);
// "30s"; 1ms to 24h.
CLI::Option* AddTimeoutOption(CLI::App& app, const std::string& name, absl::Duration* timeout,
                              const std::string& help);
// HOST:PORT
CLI::Option* AddAddressOption(CLI::App& app, const std::string& name, std::string* address,
                              const std::string& help);
CLI::Option* AddChoiceOption(CLI::App& app, const std::string& name, std::string* choice,
                             std::vector<std::string> choices, const std::string& help);
// Any text but none: an empty shell variable is a mistake, not a name.
CLI::Option* AddTextOption(CLI::App& app, const std::string& name, std::string* text,
                           const std::string& help);
// The name of a namespace or of a node.
CLI::Option* AddNamespaceOption(CLI::App& app, const std::string& name, std::string* text,
                                const std::string& help);
CLI::Option* AddNodeOption(CLI::App& app, const std::string& name, std::string* text,
                           const std::string& help);
// A key as people write it (output/key_text.h), of a length that keys have.
CLI::Option* AddKeyOption(CLI::App& app, const std::string& name, std::string* key,
                          const std::string& help);
CLI::Option* AddKeysOption(CLI::App& app, const std::string& name, std::vector<std::string>* keys,
                           const std::string& help);
// The same for the start of keys, which may be empty.
CLI::Option* AddPrefixOption(CLI::App& app, const std::string& name, std::string* prefix,
                             const std::string& help);

}  // namespace moonpool::cli
