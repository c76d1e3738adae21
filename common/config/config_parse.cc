// The command line, and what beats what: default < file < flag.

#include <fstream>
#include <iterator>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/config/config_table.h"
#include "common/config/suggest.h"
#include "common/status_macros.h"

namespace moonpool {
namespace {

constexpr std::streamsize kFileBytesMax = 1 << 20;

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) return absl::InvalidArgumentError(absl::StrCat(path, ": cannot be read"));
  std::string content(kFileBytesMax, '\0');
  stream.read(content.data(), kFileBytesMax);
  if (stream.bad() || (!stream.eof() && stream.fail())) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": cannot be read"));
  }
  if (stream.gcount() == kFileBytesMax) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": larger than 1 MiB, no config file"));
  }
  content.resize(static_cast<size_t>(stream.gcount()));
  return content;
}

// nullopt: the text is of another type; the row then says which one it wants.
std::optional<ConfigValue> ValueOfText(ConfigKind kind, const std::string& text) {
  switch (kind) {
    case ConfigKind::kBool:
      if (text == "true") return true;
      if (text == "false") return false;
      return std::nullopt;
    case ConfigKind::kInteger: {
      int64_t number = 0;
      if (!absl::SimpleAtoi(text, &number)) return std::nullopt;
      return number;
    }
    case ConfigKind::kReal: {
      double number = 0;
      if (!absl::SimpleAtod(text, &number)) return std::nullopt;
      return number;
    }
    case ConfigKind::kString: return text;
    case ConfigKind::kList:
      return text.empty() ? std::vector<std::string>{}
                          : std::vector<std::string>(absl::StrSplit(text, ','));
  }
  return std::nullopt;
}

}  // namespace

struct ConfigTable::CommandLine {
  std::vector<FlagUse> flags;
  std::vector<std::string> positionals;
  std::string config_file;
  bool wants_help = false;
  bool wants_version = false;
  bool wants_config = false;
  bool wants_docs = false;
};

absl::Status ConfigTable::UnknownFlag(absl::string_view flag) const {
  std::vector<std::string> known = {"--help", "--version", "--print-config", "--print-docs"};
  if (text_.reads_file) known.push_back("--config");
  for (const ConfigRow& row : rows_) known.push_back(row.flag);
  const std::string nearest = NearestWord(flag, known);
  return absl::InvalidArgumentError(
      absl::StrCat(flag, ": unknown flag; ",
                   nearest.empty() ? absl::StrCat("see ", text_.program, " --help")
                                   : absl::StrCat("did you mean ", nearest, "?")));
}

// Reads args[index] and, where the value is an argument of its own, moves index onto it.
absl::Status ConfigTable::ReadFlag(absl::Span<const std::string> args, size_t& index,
                                   CommandLine& line) const {
  const std::string& arg = args[index];
  if (arg == "--help" || arg == "-h") return line.wants_help = true, absl::OkStatus();
  if (arg == "--version") return line.wants_version = true, absl::OkStatus();
  if (arg == "--print-config") return line.wants_config = true, absl::OkStatus();
  if (arg == "--print-docs") return line.wants_docs = true, absl::OkStatus();

  const std::pair<std::string, std::string> split = absl::StrSplit(arg, absl::MaxSplits('=', 1));
  const std::string& name = split.first;
  const bool has_value = name.size() != arg.size();
  const ConfigRow* row = FindFlag(name);
  const bool is_config = name == "--config" && text_.reads_file;
  if (row == nullptr && !is_config) {
    row = absl::StartsWith(name, "--no-") ? FindFlag(absl::StrCat("--", name.substr(5))) : nullptr;
    if (row == nullptr || row->kind != ConfigKind::kBool || has_value) return UnknownFlag(name);
    line.flags.push_back({row, arg, "false"});
    return absl::OkStatus();
  }
  std::string value = split.second;
  if (!has_value && row != nullptr && row->kind == ConfigKind::kBool) {
    value = "true";  // a bare --flag; its value is never the next argument
  } else if (!has_value) {
    if (index + 1 == args.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, ": needs a value, ", is_config ? "FILE" : row->metavar));
    }
    value = args[++index];
  }
  if (is_config && value.empty()) {
    return absl::InvalidArgumentError("--config: the name is empty; is a shell variable unset?");
  }
  if (is_config) return line.config_file = value, absl::OkStatus();
  const absl::string_view shown = row->is_secret ? absl::string_view("<redacted>") : value;
  line.flags.push_back({row, absl::StrCat(name, "=", shown), value});
  return absl::OkStatus();
}

absl::StatusOr<ConfigTable::CommandLine> ConfigTable::ReadCommandLine(
    absl::Span<const std::string> args) const {
  CommandLine line;
  bool only_positionals = false;  // after "--"
  for (size_t i = 0; i < args.size(); ++i) {
    const std::string& arg = args[i];
    if (only_positionals || !absl::StartsWith(arg, "-") || arg == "-") {
      const ConfigRow* before = i == 0 ? nullptr : FindFlag(args[i - 1]);
      if (before != nullptr && before->kind == ConfigKind::kBool && positionals_.empty()) {
        return absl::InvalidArgumentError(
            absl::StrCat("\"", arg, "\": unexpected argument; write ", before->flag, "=", arg));
      }
      line.positionals.push_back(arg);
    } else if (arg == "--") {
      only_positionals = true;
    } else {
      RETURN_IF_ERROR(ReadFlag(args, i, line));
    }
  }
  return line;
}

absl::Status ConfigTable::ApplyFlag(const FlagUse& use) const {
  // A value of the wrong type goes to the row as the string it is: the row words the error.
  const ConfigValue value = ValueOfText(use.row->kind, use.value).value_or(ConfigValue(use.value));
  const absl::Status status = use.row->set(value);
  if (status.ok()) return status;
  return absl::InvalidArgumentError(absl::StrCat(use.shown, ": ", status.message()));
}

absl::Status ConfigTable::ApplyFile(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string content, ReadFile(path));
  return ApplyToml(content, path);
}

absl::Status ConfigTable::ApplyPositionals(const std::vector<std::string>& values) const {
  size_t next = 0;
  for (const PositionalArg& arg : positionals_) {
    if (arg.rest != nullptr) {
      arg.rest->assign(values.begin() + static_cast<std::ptrdiff_t>(next), values.end());
      next = values.size();
    } else if (next < values.size()) {
      *arg.field = values[next++];
    } else if (arg.is_required) {
      return absl::InvalidArgumentError(
          absl::StrCat(arg.name, " is missing: ", arg.help, " See ", text_.program, " --help"));
    }
  }
  if (next == values.size()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("\"", values[next], "\": unexpected argument; see ", text_.program, " --help"));
}

absl::StatusOr<ConfigTable::Outcome> ConfigTable::Parse(absl::Span<const std::string> args,
                                                        absl::string_view default_file) {
  ASSIGN_OR_RETURN(const CommandLine line, ReadCommandLine(args));
  if (line.wants_help) return Outcome{true, Help()};
  if (line.wants_version) {
    return Outcome{true, absl::StrCat(text_.program, " ", text_.version, "\n")};
  }
  if (line.wants_docs) return Outcome{true, DocsMarkdown()};
  const std::string file = line.config_file.empty() ? std::string(default_file) : line.config_file;
  if (text_.reads_file && !file.empty()) RETURN_IF_ERROR(ApplyFile(file));
  for (const FlagUse& use : line.flags) RETURN_IF_ERROR(ApplyFlag(use));
  RETURN_IF_ERROR(ApplyPositionals(line.positionals));
  if (line.wants_config) return Outcome{true, Toml()};
  return Outcome{};
}

}  // namespace moonpool
