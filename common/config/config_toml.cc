// TOML text into a table. The only file that knows the TOML library, and in its exception-free
// form: a file with a mistake is an ordinary error here.

#define TOML_EXCEPTIONS 0
#include <toml++/impl/preprocessor.h>
// toml++ 3.3 asserts (and with NDEBUG assumes, which is worse) that a key starts with a key
// character where a malformed file can start it with any: "[=" for one. The parser reports that
// as an error two lines further on, so the claim is dropped. config_fuzz watches.
#undef TOML_ASSERT_ASSUME
#define TOML_ASSERT_ASSUME(expr) static_assert(true)
#include <toml++/toml.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <string_view>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/config/config_table.h"
#include "common/config/suggest.h"
#include "common/status_macros.h"

namespace moonpool {
namespace {

struct Setting {
  std::string key;
  uint32_t line;
  const toml::node* node;
};

// The library bounds how deep values nest, but not how many parts a dotted key has, and recurses
// over them. A key is within one line.
constexpr size_t kLineBytesMax = 4096;

// The first line that is longer; 0 when none is.
uint32_t LineTooLong(absl::string_view toml) {
  uint32_t number = 0;
  for (const absl::string_view line : absl::StrSplit(toml, '\n')) {
    ++number;
    if (line.size() > kLineBytesMax) return number;
  }
  return 0;
}

// Tables flattened to dotted keys; an empty one stands for itself.
void Flatten(const toml::table& table, const std::string& prefix, std::vector<Setting>& out) {
  for (const auto& [key, node] : table) {
    const std::string dotted =
        absl::StrCat(prefix, prefix.empty() ? "" : ".", std::string(key.str()));
    if (const toml::table* inner = node.as_table(); inner != nullptr && !inner->empty()) {
      Flatten(*inner, dotted, out);
    } else {
      out.push_back({dotted, key.source().begin.line, &node});
    }
  }
}

std::optional<ConfigValue> ListOf(const toml::array& array) {
  std::vector<std::string> items;
  for (const toml::node& item : array) {
    const auto* text = item.as_string();
    if (text == nullptr) return std::nullopt;
    items.push_back(text->get());
  }
  return items;
}

// nullopt for what no row takes: dates, tables within arrays.
std::optional<ConfigValue> ValueOf(const toml::node& node) {
  if (const auto* value = node.as_boolean()) return value->get();
  if (const auto* value = node.as_integer()) return value->get();
  if (const auto* value = node.as_floating_point()) return value->get();
  if (const auto* value = node.as_string()) return value->get();
  if (const auto* value = node.as_array()) return ListOf(*value);
  return std::nullopt;
}

}  // namespace

absl::Status ConfigTable::UnknownKey(absl::string_view key) const {
  std::vector<std::string> known;
  for (const ConfigRow& row : rows_) known.push_back(row.key);
  const std::string nearest = NearestWord(key, known);
  return absl::InvalidArgumentError(absl::StrCat(
      "unknown key ", key, "; ",
      nearest.empty() ? absl::StrCat(text_.program, " --print-config lists the known ones")
                      : absl::StrCat("did you mean ", nearest, "?")));
}

// Of the file: "data" when there is data.listen.
bool ConfigTable::IsGroup(absl::string_view key) const {
  return std::any_of(rows_.begin(), rows_.end(), [&](const ConfigRow& row) {
    return absl::StartsWith(row.key, absl::StrCat(key, "."));
  });
}

absl::Status ConfigTable::ApplyToml(absl::string_view toml, absl::string_view file_name) {
  const auto error_at = [file_name](uint32_t line, absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat(file_name, ":", line, ": ", what));
  };
  if (const uint32_t line = LineTooLong(toml); line != 0) {
    return error_at(line, absl::StrCat("longer than ", kLineBytesMax, " bytes"));
  }
  const toml::parse_result parsed = toml::parse(std::string_view(toml.data(), toml.size()));
  if (parsed.failed()) {
    return error_at(parsed.error().source().begin.line, std::string(parsed.error().description()));
  }
  std::vector<Setting> settings;
  Flatten(parsed.table(), "", settings);
  for (const Setting& setting : settings) {
    if (setting.node->is_table() && IsGroup(setting.key)) continue;
    const ConfigRow* row = FindKey(setting.key);
    if (row == nullptr) return error_at(setting.line, UnknownKey(setting.key).message());
    const std::optional<ConfigValue> value = ValueOf(*setting.node);
    if (!value) {
      return error_at(setting.line, absl::StrCat(setting.key,
                                                 ": neither a boolean, a number, a string nor an "
                                                 "array of strings"));
    }
    if (const absl::Status status = row->set(*value); !status.ok()) {
      const std::string shown = row->is_secret ? "<redacted>" : ConfigValueToml(*value);
      return error_at(setting.line,
                      absl::StrCat(setting.key, " = ", shown, ": ", status.message()));
    }
  }
  return absl::OkStatus();
}

}  // namespace moonpool
