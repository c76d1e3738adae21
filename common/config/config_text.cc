// A table as text: --help, --print-config, --print-docs, the log line at start.

#include <algorithm>
#include <functional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "common/config/config_table.h"

namespace moonpool {
namespace {

constexpr size_t kHelpColumn = 34;

std::string TomlString(absl::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out.push_back('\\');
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      absl::StrAppendFormat(&out, "\\u%04x", static_cast<unsigned char>(c));
    } else {
      out.push_back(c);
    }
  }
  out.push_back('"');
  return out;
}

// TOML tells a float from an integer by its dot; the shortest text that reads back is kept.
std::string RealText(double value) {
  for (const int digits : {6, 15, 17}) {
    const std::string text = absl::StrFormat("%.*g", digits, value);
    if (digits != 17 && std::stod(text) != value) continue;
    return text.find_first_of(".en") == std::string::npos ? text + ".0" : text;
  }
  return "0.0";
}

void AppendHelpLine(const std::string& left, absl::string_view right, std::string* out) {
  absl::StrAppend(out, "  ", left);
  if (left.size() + 4 > kHelpColumn) {
    absl::StrAppend(out, "\n", std::string(kHelpColumn, ' '));
  } else {
    out->append(kHelpColumn - 2 - left.size(), ' ');
  }
  absl::StrAppend(out, right, "\n");
}

std::string HelpOf(const ConfigRow& row) {
  std::vector<std::string> notes;
  const std::string default_text = ConfigValueText(row, row.default_value);
  if (!default_text.empty()) notes.push_back(absl::StrCat("default ", default_text));
  // A choice names its values in the metavar already.
  const bool is_repeated = row.range == absl::StrReplaceAll(row.metavar, {{"|", ", "}});
  if (!row.range.empty() && !is_repeated) notes.push_back(row.range);
  return notes.empty() ? row.help : absl::StrCat(row.help, " [", absl::StrJoin(notes, "; "), "]");
}

std::string SectionOf(absl::string_view key) {
  const size_t dot = key.rfind('.');
  return dot == absl::string_view::npos ? "" : std::string(key.substr(0, dot));
}

std::string NameOf(absl::string_view key) {
  const size_t dot = key.rfind('.');
  return std::string(dot == absl::string_view::npos ? key : key.substr(dot + 1));
}

// Groups in order of first appearance: two places may add to one group.
std::vector<std::string> DistinctInOrder(const std::vector<ConfigRow>& rows,
                                         const std::function<std::string(const ConfigRow&)>& of) {
  std::vector<std::string> distinct;
  for (const ConfigRow& row : rows) {
    const std::string value = of(row);
    if (std::find(distinct.begin(), distinct.end(), value) == distinct.end()) {
      distinct.push_back(value);
    }
  }
  return distinct;
}

// How to write those settings, for the help; empty where there are none.
std::string BooleansOf(const std::vector<ConfigRow>& rows) {
  const bool has_any = std::any_of(
      rows.begin(), rows.end(), [](const ConfigRow& row) { return row.kind == ConfigKind::kBool; });
  return has_any ? "What is true or false: --flag, --flag=false or --no-flag.\n\n" : "";
}

std::string GroupOf(const ConfigRow& row) { return row.group; }

std::string MarkdownCell(absl::string_view text) {
  return absl::StrReplaceAll(text, {{"|", "\\|"}, {"\n", " "}});
}

}  // namespace

std::string ConfigValueToml(const ConfigValue& value) {
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const auto* number = std::get_if<int64_t>(&value)) return absl::StrCat(*number);
  if (const auto* number = std::get_if<double>(&value)) return RealText(*number);
  if (const auto* text = std::get_if<std::string>(&value)) return TomlString(*text);
  const auto& list = std::get<std::vector<std::string>>(value);
  return absl::StrCat("[",
                      absl::StrJoin(list, ", ",
                                    [](std::string* out, const std::string& item) {
                                      out->append(TomlString(item));
                                    }),
                      "]");
}

std::string ConfigValueText(const ConfigRow& row, const ConfigValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) {
    return row.is_secret && !text->empty() ? "<redacted>" : *text;
  }
  if (const auto* list = std::get_if<std::vector<std::string>>(&value)) {
    return absl::StrJoin(*list, ",");
  }
  return ConfigValueToml(value);
}

std::string ConfigTable::Help() const {
  std::string out = absl::StrCat(text_.program, ": ", text_.summary, "\n\nUsage: ", text_.program);
  if (!rows_.empty()) absl::StrAppend(&out, " [--flag value ...]");
  for (const PositionalArg& arg : positionals_) {
    if (arg.rest != nullptr) absl::StrAppend(&out, " [", arg.name, " ...]");
    if (arg.rest == nullptr && arg.is_required) absl::StrAppend(&out, " ", arg.name);
    if (arg.rest == nullptr && !arg.is_required) absl::StrAppend(&out, " [", arg.name, "]");
  }
  out.push_back('\n');
  if (!text_.examples.empty()) absl::StrAppend(&out, "\nExamples:\n");
  for (const ConfigText::Example& example : text_.examples) {
    absl::StrAppend(&out, "  ", example.command, "\n      ", example.meaning, "\n");
  }
  if (!positionals_.empty()) absl::StrAppend(&out, "\nArguments:\n");
  for (const PositionalArg& arg : positionals_) AppendHelpLine(arg.name, arg.help, &out);
  for (const std::string& group : DistinctInOrder(rows_, GroupOf)) {
    absl::StrAppend(&out, "\n", group, ":\n");
    for (const ConfigRow& row : rows_) {
      if (row.group != group) continue;
      // The value of a boolean is never the next word, which is where others have theirs.
      const std::string metavar =
          row.kind == ConfigKind::kBool ? "[=false]" : absl::StrCat(" ", row.metavar);
      AppendHelpLine(row.flag + metavar, HelpOf(row), &out);
    }
  }
  absl::StrAppend(&out, "\n", BooleansOf(rows_), "Always there:\n");
  if (text_.reads_file) {
    AppendHelpLine("--config FILE",
                   "TOML file with these settings; or name it in $MOONPOOL_CONFIG.", &out);
  }
  AppendHelpLine("--print-config", "Print the effective settings as TOML and exit.", &out);
  AppendHelpLine("--print-docs", "Print these settings as Markdown and exit.", &out);
  AppendHelpLine("--help, --version", "Print this, or the version, and exit.", &out);
  if (!exit_codes_.empty()) absl::StrAppend(&out, "\nExit codes: ", exit_codes_, "\n");
  return out;
}

std::string ConfigTable::Toml() const {
  std::vector<std::string> sections =
      DistinctInOrder(rows_, [](const ConfigRow& row) { return SectionOf(row.key); });
  // Keys without a section must come first, or TOML would file them under the section above.
  std::stable_partition(sections.begin(), sections.end(),
                        [](const std::string& section) { return section.empty(); });
  std::string out = absl::StrCat("# ", text_.program, " ", text_.version, "\n");
  for (const std::string& section : sections) {
    if (!section.empty()) absl::StrAppend(&out, "\n[", section, "]\n");
    for (const ConfigRow& row : rows_) {
      if (SectionOf(row.key) != section) continue;
      absl::StrAppend(&out, "# ", HelpOf(row), "\n", row.is_secret ? "# " : "", NameOf(row.key),
                      " = ", row.is_secret ? "\"<redacted>\"" : ConfigValueToml(row.get()), "\n");
    }
  }
  return out;
}

std::string ConfigTable::DocsMarkdown() const {
  std::string out = absl::StrCat("### ", text_.program, "\n\n", text_.summary, "\n");
  for (const std::string& group : DistinctInOrder(rows_, GroupOf)) {
    absl::StrAppend(&out, "\n**", group, "**\n\n| key | flag | default | allowed | meaning |\n",
                    "|---|---|---|---|---|\n");
    for (const ConfigRow& row : rows_) {
      if (row.group != group) continue;
      const std::string default_text = ConfigValueText(row, row.default_value);
      absl::StrAppend(&out, "| `", row.key, "` | `", row.flag, "` | ",
                      default_text.empty() ? "" : absl::StrCat("`", default_text, "`"), " | ",
                      row.kind == ConfigKind::kBool ? "true, false" : MarkdownCell(row.range),
                      " | ", MarkdownCell(row.help), " |\n");
    }
  }
  return out;
}

std::vector<std::pair<std::string, std::string>> ConfigTable::ChangedSettings() const {
  std::vector<std::pair<std::string, std::string>> out;
  for (const ConfigRow& row : rows_) {
    const ConfigValue value = row.get();
    if (value != row.default_value) out.emplace_back(row.key, ConfigValueText(row, value));
  }
  return out;
}

}  // namespace moonpool
