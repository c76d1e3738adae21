#include "common/program/program.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/config/host_port.h"
#include "common/error.h"
#include "common/mutex_checks.h"
#include "common/standard_files.h"
#include "common/status_macros.h"

namespace moonpool {
namespace {

constexpr int kExitFailed = 1;
constexpr int kExitBadSettings = 2;
constexpr char kExitCodes[] = "0 ok (it was asked to stop), 1 failed, 2 bad settings";
constexpr absl::string_view kHttpListenFlag = "--http-listen";  // of every daemon

// The last line of a program that cannot go on: readable by what reads the lines before it.
void PrintError(const ConfigTable& table, const LogOptions& log, absl::string_view message) {
  if (log.format == LogFormat::kJson) return Logger(log, table.text().program).Error(message);
  std::fprintf(stderr, "%s: %.*s\n", table.text().program.c_str(), static_cast<int>(message.size()),
               message.data());
}

void LogStart(const ConfigTable& table, Logger& logger) {
  logger.Info(absl::StrCat("starting ", table.text().program),
              {{"version", table.text().version}, {"pid", getpid()}});
  for (const auto& [key, value] : table.ChangedSettings()) {
    logger.Info("setting", {{"key", key}, {"value", value}});
  }
}

}  // namespace

Program::Program(const ConfigTable& table, const LogOptions& log, StopSignals& stop)
    : config_(table.Toml()), stop_(stop), logger_(log, table.text().program) {
  metrics::AddProcessMetrics(registry_, table.text().version);
}

absl::StatusOr<std::unique_ptr<HttpServer>> Program::StartOperations(
    HttpOptions options, std::function<Health()> health,
    const std::function<void(HttpServer&)>& add_pages) {
  auto server = std::make_unique<HttpServer>(std::move(options));
  ServeMetrics(registry_, *server);
  ServeHealth(std::move(health), *server);
  server->Handle("/config",
                 [text = config_](const HttpRequest&) { return HttpResponse{.body = text}; });
  if (add_pages) add_pages(*server);
  RETURN_IF_ERROR(WithPortHint(server->Start(), kHttpListenFlag));
  logger_.Info("operations port open", {{"address", server->address()}});
  return server;
}

int RunProgram(CommandLine command_line, ConfigTable& table, const LogOptions& log,
               const std::function<absl::Status(Program&)>& body) {
  HoldStandardFiles();
  KeepMutexChecksForDebugBuilds();
  table.SetExitCodes(kExitCodes);
  const std::vector<std::string> args(command_line.argv + 1, command_line.argv + command_line.argc);
  const char* default_file = std::getenv("MOONPOOL_CONFIG");
  const auto outcome = table.Parse(args, default_file == nullptr ? "" : default_file);
  if (!outcome.ok()) {
    PrintError(table, log, outcome.status().message());
    return kExitBadSettings;
  }
  if (outcome->should_exit) {
    std::fputs(outcome->output.c_str(), stdout);
    const absl::Status printed = FlushStandardOutput();
    if (!printed.ok()) PrintError(table, log, Describe(printed));
    return printed.ok() ? 0 : kExitFailed;
  }
  StopSignals stop;
  Program program(table, log, stop);
  LogStart(table, program.logger());
  const absl::Status status = body(program);
  if (!status.ok()) PrintError(table, log, Describe(status));
  program.logger().Info(absl::StrCat("stopped ", table.text().program));
  // What only the body could find wrong: settings that do not go together, or not with this
  // machine.
  if (absl::IsInvalidArgument(status)) return kExitBadSettings;
  return status.ok() ? 0 : kExitFailed;
}

}  // namespace moonpool
