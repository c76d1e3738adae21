// A master with a large index is killed and started again, with a meta store and without:
//   master-restart FOLDER [OBJECTS] [BYTES]     FOLDER: empty
//
// Three nodes hold the objects. While the master is away and comes back, a client that knows no
// location gets one object after the other. Measured, from the moment before the new process is
// started: until the first of those gets is served, and until the master has the inventory of all
// nodes with every object in its index. Then each is asked for by name, and all are read and
// compared. The last line is JSON. Exit code 0: in time, nothing lost, nothing wrong.
#include <signal.h>

#include <atomic>
#include <string>
#include <thread>

#include "cli/dev_cluster/dev_cluster.h"
#include "cli/master_link/master_link.h"
#include "common/clock.h"
#include "common/status_macros.h"
#include "tests/harness/content.h"
#include "tests/harness/wait.h"
#include "tests/scenarios/scenario.h"
#include "tests/scenarios/workload.h"

namespace moonpool::scenarios {
namespace {

using harness::kPatience;

constexpr size_t kNodes = 3;
constexpr size_t kClients = 4;
constexpr absl::Duration kServedMax = absl::Seconds(2);
constexpr absl::Duration kIndexedMax = absl::Seconds(10);
// An index that takes longer is as good as lost.
constexpr absl::Duration kIndexedPatience = absl::Minutes(1);

// A client of its own that gets objects which it has never heard of, until one is served.
class FirstHit {
 public:
  FirstHit(Client& client, const Workload& work, const Clock& clock)
      : thread_([this, &client, &work, &clock] {
          std::vector<std::byte> buffer(work.bytes);
          for (size_t i = 0; !is_stopped_; ++i) {
            const std::string key = KeyOf(i * 7919 % work.objects);
            const auto got = client.Get(key, absl::MakeSpan(buffer), {.call = Patient()});
            if (!got.ok()) continue;
            is_right_ = *got == work.bytes && harness::HoldsContentOf(key, buffer);
            served_at_ = clock.Now();
            return;
          }
        }) {}
  ~FirstHit() {
    if (thread_.joinable()) Join();
  }
  // Infinite when none was served.
  absl::Time Join() {
    is_stopped_ = true;
    thread_.join();
    return served_at_;
  }
  bool is_right() const { return is_right_; }

 private:
  std::atomic<bool> is_stopped_ = false;
  absl::Time served_at_ = absl::InfiniteFuture();
  bool is_right_ = false;
  std::thread thread_;
};

bool HasWholeIndex(cli::MasterLink& link, size_t objects) {
  const auto status = link.GetStatus();
  if (!status.ok() || status->objects() != objects) return false;
  const auto list = link.ListNodes();
  if (!list.ok()) return false;
  size_t complete = 0;
  for (const v1::NodeStatus& node : list->nodes()) complete += node.inventory_complete();
  return complete == kNodes;
}

absl::StatusOr<nlohmann::json> RunOnce(const Workload& work, std::vector<std::string> master_args) {
  const SteadyClock clock;
  ASSIGN_OR_RETURN(
      const auto cluster,
      dev::DevCluster::Start({.nodes = kNodes,
                              .dram_bytes = work.objects * (work.bytes + 256) / 2 + (32 << 20),
                              .master_args = std::move(master_args)}));
  const ClientOptions at_master{.masters = {cluster->master_address()}};
  const absl::Time filling_since = clock.Now();
  {
    ASSIGN_OR_RETURN(const Clients writers, ConnectMany(kClients, at_master));
    RETURN_IF_ERROR(PutAll(writers, work));
  }
  const absl::Duration filling = clock.Now() - filling_since;
  ASSIGN_OR_RETURN(const auto reader, Client::Connect(at_master));
  ASSIGN_OR_RETURN(const Clients checkers, ConnectMany(kClients, at_master));

  cluster->master().process->Signal(SIGKILL);
  if (!cluster->master().process->WaitForExit(kPatience)) {
    return absl::InternalError("the master does not die");
  }
  FirstHit first_hit(*reader, work, clock);
  const absl::Time begin = clock.Now();
  RETURN_IF_ERROR(cluster->RestartMaster());
  const absl::Duration started = clock.Now() - begin;
  cli::MasterLink link({cluster->master_address()}, kPatience);
  const bool is_whole =
      harness::Eventually([&] { return HasWholeIndex(link, work.objects); }, kIndexedPatience);
  const absl::Duration indexed = clock.Now() - begin;
  const absl::Duration served = first_hit.Join() - begin;

  const Found there = CountReadable(checkers, work);
  const Found read = ReadAll(checkers, work);
  const bool is_in_time = is_whole && served < kServedMax && indexed < kIndexedMax;
  return nlohmann::json{
      {"filling_s", absl::ToDoubleSeconds(filling)},
      {"started_s", absl::ToDoubleSeconds(started)},
      {"first_hit_s", absl::ToDoubleSeconds(served)},
      {"whole_index_s", absl::ToDoubleSeconds(indexed)},
      {"not_there", there.lost},
      {"lost", read.lost},
      {"wrong", read.wrong},
      {"first_error", there.first.empty() ? read.first : there.first},
      {"ok", is_in_time && first_hit.is_right() && there.readable == work.objects &&
                 read.readable == work.objects}};
}

absl::StatusOr<nlohmann::json> Run(const ScenarioArgs& args) {
  const Workload work{.objects = args.Number(0, 1'000'000), .bytes = args.Number(1, 256)};
  if (work.objects == 0 || work.bytes == 0) {
    return absl::FailedPreconditionError("nothing to put: name a number of objects and of bytes");
  }
  ASSIGN_OR_RETURN(const nlohmann::json with, RunOnce(work, {"--meta-dir", args.folder + "/meta"}));
  ASSIGN_OR_RETURN(const nlohmann::json without, RunOnce(work, {}));
  return nlohmann::json{{"objects", work.objects},
                        {"object_bytes", work.bytes},
                        {"nodes", kNodes},
                        {"first_hit_s_max", absl::ToDoubleSeconds(kServedMax)},
                        {"whole_index_s_max", absl::ToDoubleSeconds(kIndexedMax)},
                        {"with_meta_dir", with},
                        {"without_meta_dir", without},
                        {"ok", with["ok"].get<bool>() && without["ok"].get<bool>()}};
}

}  // namespace
}  // namespace moonpool::scenarios

int main(int argc, char** argv) {
  return moonpool::scenarios::Main("master_restart", argc, argv, &moonpool::scenarios::Run);
}
