// What every main shares: settings, signals, logger, metrics, the operations port.
//
//   int main(int argc, char** argv) {
//     NodeOptions options;
//     LogOptions log;
//     ConfigTable table({.program = "moonpool-node",
//                        .summary = "Lends this host's memory to the pool.",
//                        .version = kReleaseVersion});
//     Describe(options, table);
//     DescribeLog(log, table);
//     return RunProgram({argc, argv}, table, log, [&](Program& program) -> absl::Status {
//       Node node(options, program.clock(), program.registry(), program.logger());
//       RETURN_IF_ERROR(node.Start());
//       ASSIGN_OR_RETURN(auto operations, program.StartOperations(
//           {.listen = options.http_listen}, [&] { return node.health(); }));
//       program.stop().Wait();
//       return node.Stop();
//     });
//   }
#pragma once

#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/clock.h"
#include "common/config/config_table.h"
#include "common/http/http_server.h"
#include "common/log.h"
#include "common/metrics/metrics.h"
#include "common/program/stop_signals.h"

namespace moonpool {

// Lives as long as the body of RunProgram runs.
class Program {
 public:
  Program(const ConfigTable& table, const LogOptions& log, StopSignals& stop);

  Logger& logger() { return logger_; }
  const Clock& clock() const { return clock_; }
  metrics::Registry& registry() { return registry_; }
  StopSignals& stop() { return stop_; }

  // Serves /metrics, /healthz and /config, and what `add_pages` adds. Hold the result in the body,
  // after what `health` and the pages read, so that it stops first.
  absl::StatusOr<std::unique_ptr<HttpServer>> StartOperations(
      HttpOptions options, std::function<Health()> health,
      const std::function<void(HttpServer&)>& add_pages = {});

 private:
  const std::string config_;
  StopSignals& stop_;
  Logger logger_;
  SteadyClock clock_;
  metrics::Registry registry_;
};

struct CommandLine {
  int argc;
  char** argv;
};

// Reads the settings ($MOONPOOL_CONFIG is the only environment variable that daemons look at),
// answers --help and its kin, logs what was set, runs `body` and makes its status the exit code:
// 0 OK, 1 the body failed, 2 bad settings (INVALID_ARGUMENT of the body, too). Errors are one line
// on stderr, in the log's format as far as the settings had been read by then.
int RunProgram(CommandLine command_line, ConfigTable& table, const LogOptions& log,
               const std::function<absl::Status(Program&)>& body);

}  // namespace moonpool
