// moonpool dev: a local cluster in the foreground.
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/commands.h"
#include "cli/dev_cluster/dev_cluster.h"
#include "cli/dev_cluster/stop_fd.h"
#include "cli/values.h"
#include "common/error.h"
#include "common/standard_files.h"
#include "common/status_macros.h"

namespace moonpool::cli {
namespace {

struct Arguments {
  dev::DevClusterOptions cluster;
  std::string eviction_policy;
};

void PrintAddresses(dev::DevCluster& cluster) {
  const auto line = [](dev::Member& member) {
    std::string addresses;
    for (const auto& [name, address] : member.addresses) {
      if (name != "name") absl::StrAppend(&addresses, "  ", name, " ", address);
    }
    std::fprintf(stderr, "%-8s pid %d%s\n", member.process->name().c_str(), member.process->pid(),
                 addresses.c_str());
  };
  line(cluster.master());
  for (size_t i = 0; i < cluster.node_count(); ++i) line(cluster.node(i));
  std::fprintf(stderr, "run directory %s (logs, sockets; removed at the end)\nCtrl-C stops it\n",
               cluster.run_dir().c_str());
}

absl::Status Serve(Arguments& arguments) {
  const dev::StopFd stop;
  arguments.cluster.stop_fd = stop.fd();
  if (!arguments.eviction_policy.empty()) {
    arguments.cluster.master_args = {"--eviction-policy", arguments.eviction_policy};
  }
  ASSIGN_OR_RETURN(const auto cluster, dev::DevCluster::Start(arguments.cluster));
  PrintAddresses(*cluster);
  std::printf("ready: --master %s\n", cluster->master_address().c_str());
  RETURN_IF_ERROR(FlushStandardOutput());  // whoever waits for this line would wait for ever
  return cluster->Watch(stop.fd());
}

int Run(const Session& session, Arguments& arguments) {
  const absl::Status status = Serve(arguments);
  if (absl::IsCancelled(status)) return kOk;
  if (status.ok()) return kOk;
  const int exit_code = Fail(session, status);
  return absl::IsInvalidArgument(status) ? kUsage
                                         : exit_code;  // a daemon refused what it was given
}

}  // namespace

void AddDevCommand(CLI::App& app, Session& session) {
  CLI::App* const command =
      AddCommand(app, "dev", "A local cluster in the foreground, on free ports",
                 {"moonpool dev\nmoonpool dev --nodes 3 --dram 256MiB --eviction-policy lru",
                  "Prints `ready: --master HOST:PORT` when it serves; Ctrl-C stops all of it."});
  auto arguments = std::make_shared<Arguments>();
  AddNumberOption(*command, "--nodes", &arguments->cluster.nodes, {1, 64}, "Storage nodes [1]");
  AddBytesOption(*command, "--dram", &arguments->cluster.dram_bytes,
                 "Memory of each node [256MiB]");
  AddAddressOption(*command, "--master-listen", &arguments->cluster.master_listen,
                   "Where the master listens [a free port of 127.0.0.1]");
  AddTextOption(*command, "--eviction-policy", &arguments->eviction_policy,
                "What a full pool evicts first [the master's default]")
      ->type_name("POLICY");
  command->add_flag("--verbose", arguments->cluster.verbose, "Logs on stderr instead of in files");
  command->callback([&session, arguments] {
    session.run = [&session, arguments] { return Run(session, *arguments); };
  });
}

}  // namespace moonpool::cli
