// moonpool-node: lends the memory of its host to the pool.
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "common/program/program.h"
#include "common/rpc/protobuf_log.h"
#include "common/status_macros.h"
#include "common/version.h"
#include "storage_node/options.h"
#include "storage_node/service/node.h"

namespace moonpool::storage_node {
namespace {

absl::Status Serve(const ProgramOptions& options, Program& program) {
  Node node(options.node, {program.clock(), program.registry(), program.logger()});
  const absl::Status started = node.Start([&program] { return program.stop().is_requested(); });
  if (absl::IsCancelled(started)) return absl::OkStatus();
  RETURN_IF_ERROR(started);
  ASSIGN_OR_RETURN(
      const auto operations,
      program.StartOperations({.listen = options.http_listen}, [&node] { return node.health(); }));
  const std::string shm =
      node.shm_path().empty() ? std::string() : absl::StrCat(" --shm ", node.shm_path());
  std::printf("ready: --name %s --tcp %s%s --http %s\n", node.name().c_str(),
              node.tcp_address().c_str(), shm.c_str(), operations->address().c_str());
  std::fflush(stdout);
  program.stop().Wait();
  operations->Stop();
  node.Stop();
  return absl::OkStatus();
}

}  // namespace
}  // namespace moonpool::storage_node

int main(int argc, char** argv) {
  using namespace moonpool;
  SilenceProtobufLog();
  storage_node::ProgramOptions options;
  LogOptions log;
  ConfigTable table({.program = "moonpool-node",
                     .summary = "Lends the memory of this host to the pool.",
                     .version = kReleaseVersion});
  storage_node::Describe(options, table);
  DescribeLog(log, table);
  return RunProgram({argc, argv}, table, log,
                    [&](Program& program) { return storage_node::Serve(options, program); });
}
