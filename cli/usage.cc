#include "cli/usage.h"

#include <algorithm>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "cli/outcome.h"
#include "common/config/host_port.h"
#include "common/config/suggest.h"

namespace moonpool::cli {
namespace {

std::vector<std::string> CommandNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  return names;
}

std::vector<std::string> OptionNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back(absl::StrCat("--", name));
  }
  return names;
}

std::string DidYouMean(absl::string_view word, const std::vector<std::string>& known,
                       std::string otherwise) {
  const std::string nearest = NearestWord(word, known);
  return nearest.empty() ? otherwise : absl::StrCat("did you mean `", nearest, "`?");
}

// What people type for a command of ours, by the habit of other programs.
constexpr std::pair<absl::string_view, absl::string_view> kOtherNames[] = {
    {"cat", "get"},   {"delete", "rm"},  {"ls", "objects"},       {"list", "objects"},
    {"remove", "rm"}, {"top", "status"}, {"version", "--version"}};
// Not to be proposed to somebody who may have wanted something else: they take things away.
constexpr absl::string_view kTakeAway[] = {"drain", "forget", "rm"};

std::string CommandMeant(absl::string_view word, std::vector<std::string> commands,
                         std::string otherwise) {
  for (const auto& [other, ours] : kOtherNames) {
    if (word == other) return absl::StrCat("it is `moonpool ", ours, "` here");
  }
  std::erase_if(commands, [](const std::string& command) {
    return std::find(std::begin(kTakeAway), std::end(kTakeAway), command) != std::end(kTakeAway);
  });
  return DidYouMean(word, commands, std::move(otherwise));
}

// The first of the words that nobody took; empty when there is none.
std::string FirstLeftOver(const CLI::App& app) {
  for (const std::string& word : app.remaining(/*recurse=*/true)) {
    if (word != "--") return word;
  }
  return "";
}

// The word follows the value of a --master.
bool IsBehindMaster(absl::Span<const char* const> argv, absl::string_view word) {
  for (size_t i = 1; i < argv.size(); ++i) {
    if (argv[i] != word) continue;
    if (absl::StartsWith(argv[i - 1], "--master=")) return true;
    if (i >= 2 && argv[i - 2] == absl::string_view("--master")) return true;
  }
  return false;
}

absl::Status DescribeParseError(const CLI::App& app, const CLI::ParseError& error,
                                absl::Span<const char* const> argv) {
  const std::vector<CLI::App*> chosen = app.get_subcommands();
  const CLI::App& command = chosen.empty() ? app : *chosen[0];
  const std::string help = absl::StrCat(
      "see `moonpool ", chosen.empty() ? "" : absl::StrCat(command.get_name(), " "), "--help`");
  const std::string word = FirstLeftOver(app);
  if (absl::StartsWith(word, "-")) {
    const std::string flag = word.substr(0, word.find('='));
    return UsageError(absl::StrCat("unknown option ", flag),
                      DidYouMean(flag, OptionNames(command), help));
  }
  if (ParseHostPort(word).ok() && IsBehindMaster(argv, word)) {
    return UsageError(absl::StrCat("unexpected word \"", word, "\""),
                      "--master takes one value: separate masters by commas, or repeat it");
  }
  const std::vector<std::string> commands = CommandNames(app);
  if (!word.empty() && chosen.empty()) {
    return UsageError(absl::StrCat("unknown command \"", word, "\""),
                      CommandMeant(word, commands, help));
  }
  if (!word.empty()) {
    const bool is_command = std::find(commands.begin(), commands.end(), word) != commands.end();
    return UsageError(absl::StrCat("unexpected word \"", word, "\""),
                      is_command ? "one command at a time" : help);
  }
  if (chosen.empty() && error.get_name() == "RequiredError") {
    return UsageError("no command is given", "`moonpool --help` lists them");
  }
  return UsageError(error.what(), help);
}

// `moonpool help` and `moonpool help put`, as people type it, are --help; empty for other words. No
// command is ever run by it: one that there is not stays alone, to be complained about.
std::vector<const char*> HelpAsked(const CLI::App& app, absl::Span<const char* const> argv) {
  if (argv.size() < 2 || argv[1] != absl::string_view("help")) return {};
  if (argv.size() == 2) return {argv[0], "--help"};
  const std::vector<std::string> commands = CommandNames(app);
  if (std::find(commands.begin(), commands.end(), argv[2]) == commands.end()) {
    return {argv[0], argv[2]};
  }
  return {argv[0], argv[2], "--help"};
}

}  // namespace

absl::StatusOr<std::string> ParseCommandLine(CLI::App& app, int argc, const char* const* argv) {
  const std::vector<const char*> help =
      HelpAsked(app, absl::MakeSpan(argv, static_cast<size_t>(argc)));
  if (!help.empty()) {
    argv = help.data();
    argc = static_cast<int>(help.size());
  }
  // CLI11 reports by exceptions; this is the only place that sees one.
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != 0) {
      return DescribeParseError(app, error, absl::MakeSpan(argv, static_cast<size_t>(argc)));
    }
    std::ostringstream out;
    app.exit(error, out, out);
    return out.str();
  }
  return "";
}

bool WantsJson(int argc, const char* const* argv) {
  return std::any_of(argv + std::min(argc, 1), argv + argc, [](absl::string_view word) {
    return word == "--json" || absl::StartsWith(word, "--json=");
  });
}

}  // namespace moonpool::cli
