// moonpool get: read an object to standard output or a file.
#include <cerrno>
#include <cstdio>
#include <memory>

#include "absl/strings/str_cat.h"
#include "cli/commands.h"
#include "cli/output/key_text.h"
#include "common/status_macros.h"

namespace moonpool::cli {
namespace {

struct Arguments {
  std::string key;
  std::string output = "-";
};

absl::Status WriteAll(const std::string& bytes, const std::string& output) {
  FILE* const file = output == "-" ? stdout : std::fopen(output.c_str(), "wb");
  if (file == nullptr) return absl::ErrnoToStatus(errno, absl::StrCat("open ", output));
  bool written = std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
  written = std::fflush(file) == 0 && written;
  const int error = errno;
  if (file != stdout) std::fclose(file);
  return written ? absl::OkStatus() : absl::ErrnoToStatus(error, absl::StrCat("write ", output));
}

absl::StatusOr<uint64_t> Get(const Session& session, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const auto client, session.Connect());
  ASSIGN_OR_RETURN(const std::string bytes, client->Get(arguments.key));
  RETURN_IF_ERROR(WriteAll(bytes, arguments.output));
  return bytes.size();
}

int Run(const Session& session, const Arguments& arguments) {
  const auto size = Get(session, arguments);
  if (!size.ok()) return Fail(session, size.status());
  if (session.json) {
    PrintJson(
        {{"key", KeyToText(arguments.key)}, {"size_bytes", *size}, {"output", arguments.output}});
  }
  return kOk;
}

}  // namespace

void AddGetCommand(CLI::App& app, Session& session) {
  CLI::App* const command =
      AddPoolCommand(app, session, "get", "Read an object to standard output or a file",
                     "moonpool get greeting\nmoonpool get block-1 -o block-1.bin");
  auto arguments = std::make_shared<Arguments>();
  AddKeyOption(*command, "KEY", &arguments->key, "The key")->required();
  CLI::Option* const output =
      command->add_option("-o,--output", arguments->output, "Where to; - is standard output")
          ->type_name("FILE");
  command->add_flag("--json", session.json, "Print the outcome as JSON; the bytes go to a file")
      ->needs(output);
  command->callback([&session, arguments] {
    session.run = [&session, arguments] { return Run(session, *arguments); };
  });
}

}  // namespace moonpool::cli
