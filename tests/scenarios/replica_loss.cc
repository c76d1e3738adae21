// A node is killed for good while clients put and get objects of two replicas:
//   replica-loss FOLDER [OBJECTS] [BYTES]     FOLDER: empty
//
// Three nodes. No get may fail: those that meet the dead node go on with the other replica, inside
// of the call. Measured, from the kill, until the master knows of no object with fewer replicas
// than it should have. Whether that is true shows at the end: a second node is killed, and all is
// read. The last line is JSON. Exit code 0: no get failed, nothing lost or wrong, replication
// restored.
#include <signal.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "cli/dev_cluster/dev_cluster.h"
#include "cli/master_link/master_link.h"
#include "common/clock.h"
#include "common/status_macros.h"
#include "tests/harness/wait.h"
#include "tests/scenarios/load.h"
#include "tests/scenarios/scenario.h"
#include "tests/scenarios/workload.h"

namespace moonpool::scenarios {
namespace {

using harness::Eventually;
using harness::kPatience;

constexpr size_t kNodes = 3;
constexpr uint32_t kReplicas = 2;
constexpr size_t kReaders = 2;
constexpr absl::Duration kRestoredMax = absl::Minutes(1);
constexpr uint32_t kPage = 1000;

// Objects that have too few replicas, or count one of a node that is gone.
absl::StatusOr<size_t> CountShort(cli::MasterLink& link, const std::string& gone) {
  size_t count = 0;
  std::string token;
  do {
    ASSIGN_OR_RETURN(const v1::ListObjectsResponse page,
                     link.ListObjects("default", "", token, kPage));
    for (const v1::ObjectEntry& object : page.objects()) {
      const bool counts_gone =
          std::find(object.nodes().begin(), object.nodes().end(), gone) != object.nodes().end();
      count += counts_gone || object.replicas() < kReplicas;
    }
    token = page.next_page_token();
  } while (!token.empty());
  return count;
}

absl::Status KillForGood(dev::DevCluster& cluster, size_t node) {
  dev::ChildProcess& process = *cluster.node(node).process;
  process.Signal(SIGKILL);
  if (process.WaitForExit(kPatience)) return absl::OkStatus();
  return absl::InternalError("the node does not die");
}

absl::StatusOr<nlohmann::json> Run(const ScenarioArgs& args) {
  const Workload work{
      .objects = args.Number(0, 4000), .bytes = args.Number(1, 32 << 10), .replicas = kReplicas};
  const SteadyClock clock;
  // Two nodes hold all of it, and what is put meanwhile.
  ASSIGN_OR_RETURN(
      const auto cluster,
      dev::DevCluster::Start(
          {.nodes = kNodes, .dram_bytes = work.objects * (work.bytes + 512) + (192 << 20)}));
  const ClientOptions at_master{.masters = {cluster->master_address()}};
  ASSIGN_OR_RETURN(const Clients clients, ConnectMany(1 + kReaders, at_master));
  RETURN_IF_ERROR(PutAll(clients, work));
  cli::MasterLink link({cluster->master_address()}, kPatience);

  SteadyWriter writer(*clients[0], {.replicas = kReplicas});
  std::vector<std::unique_ptr<SteadyReader>> readers;
  for (size_t i = 0; i < kReaders; ++i) {
    readers.push_back(std::make_unique<SteadyReader>(*clients[1 + i], work));
  }
  const absl::Time killed_at = clock.Now();
  const std::string gone = cluster->node(0).process->name();
  RETURN_IF_ERROR(KillForGood(*cluster, 0));
  size_t still_short = 0;
  const bool is_restored = Eventually(
      [&] {
        still_short = CountShort(link, gone).value_or(work.objects);
        return still_short == 0;
      },
      kRestoredMax);
  const absl::Duration restored = clock.Now() - killed_at;
  const absl::Duration longest_gap = writer.LongestGapSince(killed_at);
  writer.Stop();
  Found load;
  for (const auto& reader : readers) load += reader->Stop();

  // Now every object has to be on the third one.
  Found left;
  if (is_restored) {
    RETURN_IF_ERROR(KillForGood(*cluster, 1));
    ASSIGN_OR_RETURN(const Clients checkers, ConnectMany(kReaders, at_master));
    left = ReadAll(checkers, work);
    left += writer.ReadBack(*checkers[0]);
  }
  const bool is_left = is_restored && left.lost == 0 && left.wrong == 0;
  return nlohmann::json{{"objects", work.objects},
                        {"object_bytes", work.bytes},
                        {"nodes", kNodes},
                        {"replicas", kReplicas},
                        {"gets", load.readable},
                        {"failed_gets", load.lost},
                        {"wrong", load.wrong + left.wrong},
                        {"failed_puts", writer.failed()},
                        {"longest_without_a_put_s", absl::ToDoubleSeconds(longest_gap)},
                        {"restored", is_restored},
                        {"restored_s", absl::ToDoubleSeconds(restored)},
                        {"restored_s_max", absl::ToDoubleSeconds(kRestoredMax)},
                        {"still_short", still_short},
                        {"read_from_the_last_node", left.readable},
                        {"lost", left.lost},
                        {"first_error", load.first.empty() ? left.first : load.first},
                        {"ok", is_left && load.readable > 0 && load.lost == 0 && load.wrong == 0}};
}

}  // namespace
}  // namespace moonpool::scenarios

int main(int argc, char** argv) {
  return moonpool::scenarios::Main("replica_loss", argc, argv, &moonpool::scenarios::Run);
}
