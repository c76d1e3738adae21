// A node with many sealed objects is killed and started again:
//   node-restart FOLDER [OBJECTS] [BYTES]     FOLDER: on tmpfs, empty
//
// Measured, from the moment before the new process is started, until the master says of every key
// that it is readable (Exists, in batches), and until every object has been read once and compared.
// The last line is JSON. Exit code 0: nothing lost, nothing wrong, and readable in time.
#include <signal.h>

#include <string>

#include "cli/dev_cluster/dev_cluster.h"
#include "cli/master_link/master_link.h"
#include "common/clock.h"
#include "common/status_macros.h"
#include "tests/harness/wait.h"
#include "tests/scenarios/scenario.h"
#include "tests/scenarios/workload.h"

namespace moonpool::scenarios {
namespace {

using harness::kPatience;

constexpr absl::Duration kReadableMax = absl::Seconds(2);

absl::StatusOr<nlohmann::json> Run(const ScenarioArgs& args) {
  const Workload work{.objects = args.Number(0, 100'000), .bytes = args.Number(1, 4096)};
  const SteadyClock clock;
  ASSIGN_OR_RETURN(
      const auto cluster,
      dev::DevCluster::Start({.nodes = 1,
                              .dram_bytes = work.objects * (work.bytes + 512) + (64 << 20),
                              .node_args = {"--pool-dir", args.folder + "/pool"}}));
  ASSIGN_OR_RETURN(const Clients clients, ConnectMany(1, {.masters = {cluster->master_address()}}));
  RETURN_IF_ERROR(PutAll(clients, work));

  dev::ChildProcess& node = *cluster->node(0).process;
  node.Signal(SIGKILL);
  if (!node.WaitForExit(kPatience)) return absl::InternalError("the node does not die");
  cli::MasterLink link({cluster->master_address()}, kPatience);
  const bool is_noticed = harness::Eventually([&] {
    const auto status = link.GetStatus();
    return status.ok() && status->nodes_up() == 0;
  });
  if (!is_noticed) return absl::InternalError("the master does not notice");

  const absl::Time begin = clock.Now();
  RETURN_IF_ERROR(cluster->RestartNode(0));
  const absl::Duration started = clock.Now() - begin;
  Found there;
  harness::Eventually([&] {
    there = CountReadable(clients, work);
    return there.readable == work.objects;
  });
  const absl::Duration all_readable = clock.Now() - begin;
  const Found read = ReadAll(clients, work);
  const absl::Duration all_read = clock.Now() - begin;
  return nlohmann::json{{"objects", work.objects},
                        {"object_bytes", work.bytes},
                        {"started_s", absl::ToDoubleSeconds(started)},
                        {"readable_s", absl::ToDoubleSeconds(all_readable)},
                        {"readable_s_max", absl::ToDoubleSeconds(kReadableMax)},
                        {"all_read_and_compared_s", absl::ToDoubleSeconds(all_read)},
                        {"not_readable", there.lost},
                        {"lost", read.lost},
                        {"wrong", read.wrong},
                        {"first_error", there.first.empty() ? read.first : there.first},
                        {"ok", there.readable == work.objects && all_readable < kReadableMax &&
                                   read.readable == work.objects}};
}

}  // namespace
}  // namespace moonpool::scenarios

int main(int argc, char** argv) {
  return moonpool::scenarios::Main("node_restart", argc, argv, &moonpool::scenarios::Run);
}
