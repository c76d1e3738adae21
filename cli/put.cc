// moonpool put: store a file or standard input.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <memory>

#include "absl/strings/str_cat.h"
#include "cli/commands.h"
#include "cli/output/key_text.h"
#include "cli/values.h"
#include "common/config/units.h"
#include "common/error.h"
#include "common/status_macros.h"
#include "common/types.h"

namespace moonpool::cli {
namespace {

constexpr char kFileHint[] = "name a file that can be read, or - for standard input";

struct Arguments {
  std::string key;
  std::string file = "-";
  std::string parent;
  uint32_t replicas = 1;
  uint32_t min_replicas = 0;  // 0 = replicas
};

absl::Status TooLarge(uint64_t most_bytes) {
  return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kValueTooLarge,
                   absl::StrCat("the value has more bytes than the whole pool: ", most_bytes),
                   {.hint = "split the value or add nodes"});
}

// No more than `most_bytes` are ever held: /dev/zero has no end.
absl::StatusOr<std::string> ReadAll(const std::string& file, uint64_t most_bytes) {
  const int fd = file == "-" ? STDIN_FILENO : open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return FileError(errno, "open", file, kFileHint);
  // Started without a standard input, a library of ours may have taken its number before main().
  if (struct stat kind = {};
      fd == STDIN_FILENO && fstat(fd, &kind) == 0 && (kind.st_mode & S_IFMT) == 0) {
    return FileError(EBADF, "read", file, kFileHint);
  }
  std::string bytes;
  char buffer[1 << 16];
  ssize_t got = 0;
  while (bytes.size() <= most_bytes &&
         ((got = read(fd, buffer, sizeof(buffer))) > 0 || (got < 0 && errno == EINTR))) {
    if (got > 0) bytes.append(buffer, static_cast<size_t>(got));
  }
  absl::Status status;
  if (got < 0) status = FileError(errno, "read", file, kFileHint);
  if (bytes.size() > most_bytes) status = TooLarge(most_bytes);
  if (fd != STDIN_FILENO) close(fd);
  RETURN_IF_ERROR(status);
  return bytes;
}

absl::StatusOr<uint64_t> Put(const Session& session, const Arguments& arguments) {
  // Before anything is read: what is read is bounded by what the nodes hold.
  ASSIGN_OR_RETURN(const v1::GetStatusResponse pool, session.PoolWithNodes());
  ASSIGN_OR_RETURN(const std::string bytes, ReadAll(arguments.file, pool.capacity_bytes()));
  ASSIGN_OR_RETURN(const auto client, session.Connect());
  PutItem item;
  item.key = arguments.key;
  item.parent = arguments.parent;
  item.value = {ConstBuffer(reinterpret_cast<const std::byte*>(bytes.data()), bytes.size())};
  PutOptions options;
  options.replicas = arguments.replicas;
  options.min_replicas = arguments.min_replicas;
  RETURN_IF_ERROR(client->PutMany({&item, 1}, options)[0]);
  return bytes.size();
}

int Run(const Session& session, const Arguments& arguments) {
  if (arguments.min_replicas > arguments.replicas) {
    return FailUsage(session,
                     UsageError(absl::StrCat("--min-replicas ", arguments.min_replicas,
                                             " is more than --replicas ", arguments.replicas),
                                "ask for as many replicas, or more"));
  }
  const auto size = Put(session, arguments);
  if (!size.ok()) return Fail(session, size.status());
  if (session.json) {
    PrintJson({{"key", KeyToText(arguments.key)}, {"size_bytes", *size}});
  } else {
    std::printf("stored %s (%s)\n", KeyToText(arguments.key).c_str(), HumanBytes(*size).c_str());
  }
  return kOk;
}

}  // namespace

void AddPutCommand(CLI::App& app, Session& session) {
  CLI::App* const command = AddPoolCommand(
      app, session, "put", "Store a file, or standard input, under a key",
      {"moonpool put greeting hello.txt\nhead -c 1M /dev/urandom | moonpool put block-1\n"
       "moonpool put block-2 part2.bin --parent block-1"});
  auto arguments = std::make_shared<Arguments>();
  AddJsonFlag(*command, session);
  AddKeyOption(*command, "KEY", &arguments->key, "The key")->required();
  AddTextOption(*command, "FILE", &arguments->file, "What to store; - is standard input")
      ->type_name("");
  AddKeyOption(*command, "--parent", &arguments->parent, "The block before this one in its chain");
  AddNumberOption(*command, "--replicas", &arguments->replicas, {1, kMaxReplicas},
                  "Copies on different nodes [1]");
  AddNumberOption(*command, "--min-replicas", &arguments->min_replicas, {1, kMaxReplicas},
                  "Fewer copies that will do [as --replicas]");
  command->callback([&session, arguments] {
    session.run = [&session, arguments] { return Run(session, *arguments); };
  });
}

}  // namespace moonpool::cli
