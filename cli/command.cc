#include "cli/command.h"

#include <cerrno>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "cli/output/key_text.h"
#include "common/config/host_port.h"
#include "common/config/units.h"
#include "common/error.h"

namespace moonpool::cli {
namespace {

// A CLI11 validator of what `parse` accepts.
template <typename Parse>
CLI::Validator Accepts(Parse parse) {
  return CLI::Validator(
      [parse](std::string& text) {
        const auto parsed = parse(text);
        return parsed.ok() ? std::string() : std::string(parsed.status().message());
      },
      "");
}

std::string DumpJson(const nlohmann::ordered_json& json) {
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Client>> Session::Connect(ClientOptions options) const {
  options.masters = masters;
  options.name_space = name_space;
  options.timeout = timeout;
  auto client = Client::Connect(std::move(options));
  if (client.ok() || client.status().code() != absl::StatusCode::kUnavailable) return client;
  ErrorDetail detail = DetailOf(client.status()).value_or(ErrorDetail());
  detail.hint = kNoMasterHint;
  return WithDetail(client.status(), detail);
}

CLI::App* AddCommand(CLI::App& app, const std::string& name, const std::string& summary,
                     const std::string& examples) {
  CLI::App* const command = app.add_subcommand(name, summary);
  std::string footer = "Examples:\n";
  for (absl::string_view line : absl::StrSplit(examples, '\n')) {
    absl::StrAppend(&footer, "  ", line, "\n");
  }
  command->footer(footer + "Exit codes: 0 ok, 1 failed, 2 wrong usage, 3 not found");
  return command;
}

CLI::App* AddPoolCommand(CLI::App& app, Session& session, const std::string& name,
                         const std::string& summary, const std::string& examples) {
  CLI::App* const command = AddCommand(app, name, summary, examples);
  AddConnectionOptions(*command, session);
  return command;
}

void AddConnectionOptions(CLI::App& app, Session& session) {
  app.add_option_function<std::vector<std::string>>(
         "--master",
         [&session](const std::vector<std::string>& masters) { session.masters = masters; },
         "Where the masters are (repeat, or separate by commas) [127.0.0.1:7400]")
      ->delimiter(',')
      ->check(Accepts(ParseHostPort))
      ->type_name("HOST:PORT")
      ->group("Connection");
  app.add_option("--namespace", session.name_space, "The keys' namespace [default]")
      ->type_name("NAME")
      ->group("Connection");
  AddDurationOption(app, "--timeout", &session.timeout, "Of every call to the pool [10s]")
      ->group("Connection");
}

void AddJsonFlag(CLI::App& app, Session& session) {
  app.add_flag("--json", session.json, "Print JSON instead of text");
}

CLI::Validator Quiet(CLI::Validator validator) { return validator.description(""); }

CLI::Option* AddBytesOption(CLI::App& app, const std::string& name, uint64_t* bytes,
                            const std::string& help) {
  return app
      .add_option_function<std::string>(
          name, [bytes](const std::string& text) { *bytes = *ParseBytes(text); }, help)
      ->check(Accepts(ParseBytes))
      ->type_name("SIZE");
}

CLI::Option* AddDurationOption(CLI::App& app, const std::string& name, absl::Duration* duration,
                               const std::string& help) {
  return app
      .add_option_function<std::string>(
          name, [duration](const std::string& text) { *duration = *ParseDuration(text); }, help)
      ->check(Accepts(ParseDuration))
      ->type_name("DURATION");
}

CLI::Option* AddKeyOption(CLI::App& app, const std::string& name, std::string* key,
                          const std::string& help) {
  return app
      .add_option_function<std::string>(
          name, [key](const std::string& text) { *key = *KeyFromText(text); }, help)
      ->check(Accepts(KeyFromText))
      ->type_name("KEY");
}

CLI::Option* AddKeysOption(CLI::App& app, const std::string& name, std::vector<std::string>* keys,
                           const std::string& help) {
  return app
      .add_option_function<std::vector<std::string>>(
          name,
          [keys](const std::vector<std::string>& texts) {
            for (const std::string& text : texts) keys->push_back(*KeyFromText(text));
          },
          help)
      ->check(Accepts(KeyFromText))
      ->type_name("KEY");
}

int ExitCodeOf(const absl::Status& status) {
  if (status.ok()) return kOk;
  // A wrong namespace is a mistake; nobody should take it for a miss.
  const bool is_miss = status.code() == absl::StatusCode::kNotFound &&
                       ReasonOf(status) != ErrorReason::kNamespaceUnknown;
  return is_miss ? kNotFound : kFailed;
}

int Fail(const Session& session, const absl::Status& status) {
  std::fprintf(stderr, "moonpool: %s\n", Describe(status).c_str());
  if (session.json) PrintJson({{"error", StatusToJson(status)}});
  return ExitCodeOf(status);
}

nlohmann::ordered_json StatusToJson(const absl::Status& status) {
  nlohmann::ordered_json json;
  json["code"] = absl::StatusCodeToString(status.code());
  if (status.ok()) return json;
  const ErrorDetail detail = DetailOf(status).value_or(ErrorDetail());
  json["reason"] = ReasonName(detail.reason);
  json["message"] = std::string(status.message());
  if (!detail.hint.empty()) json["hint"] = detail.hint;
  if (!detail.node.empty()) json["node"] = detail.node;
  return json;
}

void PrintJson(const nlohmann::ordered_json& json) { std::printf("%s\n", DumpJson(json).c_str()); }

void AddJsonFileOption(CLI::App& app, Session& session, std::string* file) {
  app.add_option_function<std::vector<std::string>>(
         "--json",
         [&session, file](const std::vector<std::string>& values) {
           *file = values.empty() || values[0].empty() ? "-" : values[0];
           session.json = *file == "-";
         },
         "Write JSON to a file; without one, or -: to stdout instead of text")
      ->expected(0, 1)
      ->type_name("[FILE]");
}

absl::Status WriteJson(const std::string& file, const nlohmann::ordered_json& json) {
  if (file.empty()) return absl::OkStatus();
  if (file == "-") {
    PrintJson(json);
    return absl::OkStatus();
  }
  FILE* const out = std::fopen(file.c_str(), "w");
  if (out == nullptr) return absl::ErrnoToStatus(errno, absl::StrCat("open ", file));
  const std::string text = DumpJson(json) + "\n";
  const bool is_written = std::fwrite(text.data(), 1, text.size(), out) == text.size();
  if (std::fclose(out) != 0 || !is_written) {
    return absl::ErrnoToStatus(errno, absl::StrCat("write ", file));
  }
  return absl::OkStatus();
}

std::string HumanDuration(uint64_t millis) {
  const uint64_t seconds = millis / 1000;
  if (millis < 1000) return absl::StrCat(millis, "ms");
  if (seconds < 60) return absl::StrFormat("%.1fs", static_cast<double>(millis) / 1000);
  if (seconds < 3600) return absl::StrCat(seconds / 60, "m ", seconds % 60, "s");
  if (seconds < 86400) return absl::StrCat(seconds / 3600, "h ", seconds % 3600 / 60, "m");
  return absl::StrCat(seconds / 86400, "d ", seconds % 86400 / 3600, "h");
}

}  // namespace moonpool::cli
