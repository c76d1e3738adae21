// One setting, its type erased: what parsing and rendering need to know of it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"

namespace moonpool {

// As TOML has it. Sizes, durations, addresses and choices are strings.
using ConfigValue = std::variant<bool, int64_t, double, std::string, std::vector<std::string>>;

// How the text of a flag becomes a ConfigValue.
enum class ConfigKind { kBool, kInteger, kReal, kString, kList };

struct ConfigRow {
  std::string key;      // "data.listen"
  std::string flag;     // "--data-listen"
  std::string group;    // heading in --help
  std::string help;     // one sentence
  std::string metavar;  // "SIZE"
  std::string range;    // "1..64 threads", empty when anything goes
  ConfigKind kind = ConfigKind::kString;
  bool is_secret = false;
  ConfigValue default_value;
  // Validates, then writes the field. The error says only what is wrong with the value.
  std::function<absl::Status(const ConfigValue&)> set;
  std::function<ConfigValue()> get;
};

// "900", "\"256MiB\"", "[\"a\", \"b\"]": TOML syntax.
std::string ConfigValueToml(const ConfigValue& value);

// The same for people and logs: strings bare, lists joined by commas, secrets redacted.
std::string ConfigValueText(const ConfigRow& row, const ConfigValue& value);

}  // namespace moonpool
