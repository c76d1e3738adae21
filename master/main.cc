// moonpool-master: knows where every object is and who may use it.
#include <cstdio>
#include <memory>

#include "absl/time/clock.h"
#include "common/program/program.h"
#include "common/random.h"
#include "common/rpc/protobuf_log.h"
#include "common/status_macros.h"
#include "common/version.h"
#include "master/core/core.h"
#include "master/options.h"
#include "master/service/server.h"

namespace moonpool::master {
namespace {

// Greater than any that an earlier master here has used, as long as the wall clock was not set
// back and masters start a second apart. Where it was, nodes that have seen a higher term raise
// it when they register, before they take part. A durable term comes with the meta store.
Term TermOfThisStart() { return Term{static_cast<uint32_t>(absl::ToUnixSeconds(absl::Now()))}; }

absl::Status Serve(const MasterOptions& options, Program& program) {
  RETURN_IF_ERROR(Validate(options));
  const Term term = TermOfThisStart();
  MasterServer server(options.server, options.handlers,
                      std::make_unique<Core>(options.core, term, Random(EntropySeed())),
                      {program.clock(), program.registry(), program.logger()});
  RETURN_IF_ERROR(server.Start());
  ASSIGN_OR_RETURN(const auto operations,
                   program.StartOperations({.listen = options.http_listen},
                                           [&server] { return server.health(); }));
  program.logger().Info("term begins", {{"term", term.value}});
  std::printf("ready: --master %s --http %s\n", server.address().c_str(),
              operations->address().c_str());
  std::fflush(stdout);
  program.stop().Wait();
  server.Stop();
  return absl::OkStatus();
}

}  // namespace
}  // namespace moonpool::master

int main(int argc, char** argv) {
  using namespace moonpool;
  SilenceProtobufLog();
  master::MasterOptions options;
  LogOptions log;
  ConfigTable table({.program = "moonpool-master",
                     .summary = "Knows where every object of the pool is and who may use it.",
                     .version = kReleaseVersion});
  master::Describe(options, table);
  DescribeLog(log, table);
  return RunProgram({argc, argv}, table, log,
                    [&](Program& program) { return master::Serve(options, program); });
}
