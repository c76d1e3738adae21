// moonpool get: read an object to standard output or a file.
#include <cerrno>
#include <cstdio>
#include <memory>

#include "cli/commands.h"
#include "cli/output/key_text.h"
#include "cli/read_object.h"
#include "cli/values.h"
#include "common/error.h"
#include "common/standard_files.h"
#include "common/status_macros.h"

namespace moonpool::cli {
namespace {

constexpr char kFileHint[] = "name a file that can be written, or leave --output out";

struct Arguments {
  std::string key;
  std::string output = "-";
};

absl::Status WriteAll(const ObjectBytes& object, const std::string& output) {
  FILE* const file = output == "-" ? stdout : std::fopen(output.c_str(), "wb");
  if (file == nullptr) return FileError(errno, "open", output, kFileHint);
  const bool is_written = std::fwrite(object.bytes.get(), 1, object.size, file) == object.size;
  if (file == stdout) return FlushStandardOutput();
  const bool is_closed = std::fclose(file) == 0;
  return is_written && is_closed ? absl::OkStatus() : FileError(errno, "write", output, kFileHint);
}

absl::StatusOr<uint64_t> Get(const Session& session, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const auto client, session.Connect());
  ASSIGN_OR_RETURN(const ObjectBytes object, ReadObject(*client, arguments.key));
  RETURN_IF_ERROR(WriteAll(object, arguments.output));
  return object.size;
}

// The master keeps misses short, since engines see many; a person wants to know how to go on.
absl::Status WithMissHint(const absl::Status& status) {
  ErrorDetail detail = DetailOf(status).value_or(ErrorDetail());
  if (ExitCodeOf(status) != kNotFound || !detail.hint.empty()) return status;
  detail.hint = "`moonpool why KEY` says what became of it, `moonpool objects` lists what there is";
  return WithDetail(status, detail);
}

int Run(const Session& session, const Arguments& arguments) {
  if (session.json && arguments.output == "-") {
    return FailUsage(session, UsageError("--json and the object cannot share standard output",
                                         "give the object a file with --output"));
  }
  const auto size = Get(session, arguments);
  if (!size.ok()) return Fail(session, WithMissHint(size.status()));
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
                     {"moonpool get greeting\nmoonpool get block-1 -o block-1.bin"});
  auto arguments = std::make_shared<Arguments>();
  AddKeyOption(*command, "KEY", &arguments->key, "The key")->required();
  AddTextOption(*command, "-o,--output", &arguments->output, "Where to; - is standard output")
      ->type_name("FILE");
  command->add_flag("--json", session.json, "The outcome, errors too; needs --output FILE");
  command->callback([&session, arguments] {
    session.run = [&session, arguments] { return Run(session, *arguments); };
  });
}

}  // namespace moonpool::cli
