#include "cli/outcome.h"

#include <cerrno>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "cli/command.h"
#include "cli/output/wrap.h"
#include "common/error.h"
#include "common/standard_files.h"

namespace moonpool::cli {
namespace {

constexpr char kJsonFileHint[] = "name a file that can be written with --json, or leave it out";

std::string DumpJson(const nlohmann::ordered_json& json) {
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
}

// Line by line: the last words of a child program are some.
std::string PrintableLines(absl::string_view text) {
  return absl::StrJoin(
      absl::StrSplit(text, '\n'), "\n",
      [](std::string* out, absl::string_view line) { absl::StrAppend(out, Printable(line)); });
}

void PrintJsonError(const Session& session, const absl::Status& status) {
  if (session.json) PrintJson({{"error", StatusToJson(status)}});
}

}  // namespace

const char kExitCodesHelp[] =
    "Exit codes: 0 ok, 1 failed, 2 wrong usage, 3 the pool has no such key or node";

int ExitCodeOf(const absl::Status& status) {
  if (status.ok()) return kOk;
  const ErrorReason reason = ReasonOf(status);
  const bool is_miss = status.code() == absl::StatusCode::kNotFound &&
                       reason != ErrorReason::kUnspecified &&
                       reason != ErrorReason::kNamespaceUnknown;
  return is_miss ? kNotFound : kFailed;
}

int Fail(const Session& session, const absl::Status& status) {
  std::fprintf(stderr, "moonpool: %s\n", PrintableLines(Describe(status)).c_str());
  PrintJsonError(session, status);
  return ExitCodeOf(status);
}

void Warn(absl::string_view what, absl::string_view then) {
  std::fprintf(stderr, "moonpool: warning: %s; %s\n", Printable(what).c_str(),
               Printable(then).c_str());
}

absl::Status UsageError(absl::string_view message, std::string hint) {
  return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kBadArgument, message,
                   {.hint = std::move(hint)});
}

int FailUsage(const Session& session, const absl::Status& status) {
  const std::string hint = DetailOf(status).value_or(ErrorDetail()).hint;
  const std::string message = absl::StrCat(status.message(), hint.empty() ? "" : "; ", hint);
  std::fprintf(stderr, "moonpool: %s\n", Printable(message).c_str());
  PrintJsonError(session, status);
  return kUsage;
}

absl::Status FileError(int error, absl::string_view what, absl::string_view file,
                       std::string hint) {
  return WithoutNotFound(absl::ErrnoToStatus(error, absl::StrCat(what, " ", file)),
                         std::move(hint));
}

absl::Status WithoutNotFound(const absl::Status& status, std::string hint) {
  if (status.ok()) return status;
  const bool is_mistake = absl::IsNotFound(status);
  return MakeError(is_mistake ? absl::StatusCode::kInvalidArgument : status.code(),
                   is_mistake ? ErrorReason::kBadArgument : ReasonOf(status), status.message(),
                   {.hint = std::move(hint)});
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

absl::Status CheckJsonFile(const std::string& file) {
  if (file.empty() || file == "-") return absl::OkStatus();
  FILE* const out = std::fopen(file.c_str(), "a");  // what stands there stays until there is more
  if (out == nullptr) return FileError(errno, "open", file, kJsonFileHint);
  std::fclose(out);
  return absl::OkStatus();
}

absl::Status WriteJson(const std::string& file, const nlohmann::ordered_json& json) {
  if (file.empty()) return absl::OkStatus();
  if (file == "-") {
    PrintJson(json);
    return absl::OkStatus();
  }
  FILE* const out = std::fopen(file.c_str(), "w");
  if (out == nullptr) return FileError(errno, "open", file, kJsonFileHint);
  const std::string text = DumpJson(json) + "\n";
  const bool is_written = std::fwrite(text.data(), 1, text.size(), out) == text.size();
  if (std::fclose(out) != 0 || !is_written) return FileError(errno, "write", file, kJsonFileHint);
  return absl::OkStatus();
}

int Finish(const Session& session, int exit_code) {
  const absl::Status printed = FlushStandardOutput();
  // A command that failed has said so already, perhaps for this very reason.
  if (printed.ok() || exit_code == kFailed) return exit_code;
  return Fail(session, printed);
}

}  // namespace moonpool::cli
