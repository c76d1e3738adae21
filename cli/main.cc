// moonpool: the program that people talk to a pool with.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "cli/commands.h"
#include "cli/usage.h"
#include "common/config/host_port.h"
#include "common/mutex_checks.h"
#include "common/rpc/protobuf_log.h"
#include "common/standard_files.h"
#include "common/version.h"

namespace moonpool::cli {
namespace {

constexpr char kFooter[] = R"(Examples:
  moonpool dev --nodes 3 --dram 256MiB      a local cluster, until Ctrl-C
  moonpool put greeting hello.txt           store a file
  moonpool get greeting                     and read it back
  moonpool status                           what the pool holds
  moonpool why greeting                     where it is, or why it is gone
  moonpool replay --generate chat           play a workload
  moonpool --namespace toy --fingerprint v1 put greeting hello.txt
                                            in a namespace made for it

Keys are any bytes: printable ASCII stands as it is, a backslash is \\, other
bytes are \xHH.

MOONPOOL_MASTER in the environment is the default of --master.

Exit codes:
  0  ok
  1  failed: the error says why and what to do next
  2  wrong usage: nothing was done
  3  the pool has no such key or node
An error is a line on standard error. With --json there is also
{"error": {"code", "reason", "message", "hint"}} on standard output.)";

constexpr char kMasterVariable[] = "MOONPOOL_MASTER";

// The default of --master. Null: the variable is not set.
absl::Status TakeMasters(const char* addresses, Session& session) {
  if (addresses == nullptr) return absl::OkStatus();
  session.masters = absl::StrSplit(addresses, ',');
  for (const std::string& master : session.masters) {
    if (ParseHostPort(master).ok()) continue;
    return UsageError(
        absl::StrCat(kMasterVariable, "=", addresses, ": \"", master, "\" is not HOST:PORT"),
        "unset it, or name masters with commas between them");
  }
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  Session session;
  CLI::App app("moonpool: a pool for KVCache", "moonpool");
  app.footer(kFooter);
  app.set_version_flag("--version", std::string("moonpool ") + kReleaseVersion);
  app.require_subcommand(1);
  app.get_formatter()->column_width(28);
  AddConnectionOptions(app, session);
  AddJsonFlag(app, session);
  AddAllCommands(app, session);
  const absl::Status from_environment = TakeMasters(std::getenv(kMasterVariable), session);
  const absl::StatusOr<std::string> to_print =
      from_environment.ok() ? ParseCommandLine(app, argc, argv) : from_environment;
  if (!to_print.ok()) {
    session.json = WantsJson(argc, argv);
    return Finish(session, FailUsage(session, to_print.status()));
  }
  if (to_print->empty()) return Finish(session, session.run());
  std::fputs(to_print->c_str(), stdout);
  return Finish(session, kOk);
}

}  // namespace
}  // namespace moonpool::cli

int main(int argc, char** argv) {
  moonpool::HoldStandardFiles();
  moonpool::KeepMutexChecksForDebugBuilds();
  moonpool::SilenceProtobufLog();
  return moonpool::cli::Main(argc, argv);
}
