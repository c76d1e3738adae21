// The leader of three masters is killed, stopped and cut off, five times each:
//   failover FOLDER [ROUNDS]     FOLDER: empty
//
// Masters, nodes and etcd are processes on hosts of their own. A client puts one object after the
// other; others get objects whose locations they know. Measured in each round: the longest time
// between two acknowledged puts, from the fault until the pool is whole under the next leader and
// puts go on. Then what happened to the old leader is undone, and the next round begins. At the end
// a client that knows no location reads all that was ever acknowledged.
// The last line is JSON. Exit code 0: the median of each kind of fault is short enough, no get of a
// known location failed, nothing acknowledged is lost, nothing is wrong.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bench/measure/samples.h"
#include "cli/dev_cluster/dev_cluster.h"
#include "common/clock.h"
#include "common/status_macros.h"
#include "tests/harness/etcd_server.h"
#include "tests/harness/hosted_cluster.h"
#include "tests/harness/network.h"
#include "tests/harness/wait.h"
#include "tests/scenarios/load.h"
#include "tests/scenarios/scenario.h"
#include "tests/scenarios/workload.h"

namespace moonpool::scenarios {
namespace {

using harness::Eventually;
using harness::HostedCluster;
using harness::kPatience;
using harness::Network;

constexpr size_t kMasters = 3;
constexpr size_t kReaders = 2;
constexpr Workload kKnown{.objects = 500, .bytes = 4096};
constexpr absl::Duration kGapMax = absl::Seconds(3);

// The client gets to know the locations.
void WarmUp(Client& client) {
  std::vector<std::byte> buffer(kKnown.bytes);
  for (size_t i = 0; i < kKnown.objects; ++i) {
    client.Get(KeyOf(i), absl::MakeSpan(buffer)).status().IgnoreError();
  }
}

enum class Fault { kKill, kPause, kCutOff };
constexpr std::pair<Fault, const char*> kFaults[] = {
    {Fault::kKill, "kill"}, {Fault::kPause, "stop"}, {Fault::kCutOff, "partition"}};

absl::Status Break(Network& network, harness::HostedProcess& leader, Fault fault) {
  switch (fault) {
    case Fault::kKill: return leader.Kill();
    case Fault::kPause: return leader.Pause();
    case Fault::kCutOff: return network.Isolate(leader.host(), Network::Scope::kOthersAndSelf);
  }
  return absl::OkStatus();
}

absl::StatusOr<size_t> LeaderOf(HostedCluster& cluster, size_t except = SIZE_MAX) {
  size_t leader = kMasters;
  if (Eventually([&] { return (leader = cluster.Leader(except)) < kMasters; })) return leader;
  return absl::DeadlineExceededError("no master leads");
}

// The longest gap between two puts around one fault.
absl::StatusOr<absl::Duration> OneRound(Network& network, HostedCluster& cluster,
                                        const SteadyWriter& writer, Fault fault) {
  const SteadyClock clock;
  ASSIGN_OR_RETURN(const size_t leader, LeaderOf(cluster));
  const absl::Time begin = clock.Now();
  if (!Eventually([&] { return writer.HasPutSince(begin); })) {
    return absl::DeadlineExceededError("puts do not go on before the fault");
  }
  const absl::Time broken_at = clock.Now();
  RETURN_IF_ERROR(Break(network, cluster.master(leader), fault));
  RETURN_IF_ERROR(LeaderOf(cluster, leader).status());
  const absl::Time led_at = clock.Now();
  if (!Eventually([&] { return writer.HasPutSince(led_at); })) {
    return absl::DeadlineExceededError("puts do not go on under the next leader");
  }
  const absl::Duration gap = writer.LongestGapSince(broken_at);
  RETURN_IF_ERROR(network.Heal());
  RETURN_IF_ERROR(cluster.StartAll());
  if (!Eventually([&] { return cluster.IsWhole(); })) {
    return absl::DeadlineExceededError("the pool does not become whole again");
  }
  return gap;
}

struct Rounds {
  nlohmann::json figures = nlohmann::json::object();
  bool in_time = true;
};

absl::StatusOr<Rounds> AllRounds(Network& network, HostedCluster& cluster,
                                 const SteadyWriter& writer, size_t count) {
  Rounds rounds;
  for (const auto& [fault, name] : kFaults) {
    bench::Samples gaps;
    nlohmann::json list = nlohmann::json::array();
    for (size_t i = 0; i < count; ++i) {
      ASSIGN_OR_RETURN(const absl::Duration gap, OneRound(network, cluster, writer, fault));
      gaps.Add(absl::ToDoubleSeconds(gap));
      list.push_back(gaps.at(i));
    }
    rounds.in_time = rounds.in_time && gaps.Median() < absl::ToDoubleSeconds(kGapMax);
    rounds.figures[name] = {{"gaps_s", list}, {"median_s", gaps.Median()}, {"max_s", gaps.Max()}};
  }
  return rounds;
}

absl::StatusOr<nlohmann::json> Run(const ScenarioArgs& args) {
  const size_t count = std::max<size_t>(1, args.Number(0, 5));
  if (const std::string why = harness::WhyNoEtcd(); !why.empty()) {
    return absl::FailedPreconditionError(why);
  }
  ASSIGN_OR_RETURN(const auto network, Network::Create(args.folder));
  ASSIGN_OR_RETURN(const auto cluster,
                   HostedCluster::Start(*network, {.masters = kMasters,
                                                   .dram_bytes = uint64_t{128} << 20,
                                                   .logs_folder = args.folder,
                                                   .program_dir = dev::OwnProgramDir()}));
  const ClientOptions at_masters{.masters = cluster->master_addresses()};
  ASSIGN_OR_RETURN(const Clients clients, ConnectMany(1 + kReaders, at_masters));
  RETURN_IF_ERROR(PutAll(clients, kKnown));
  SteadyWriter writer(*clients[0], {});
  std::vector<std::unique_ptr<SteadyReader>> readers;
  for (size_t i = 0; i < kReaders; ++i) {
    WarmUp(*clients[1 + i]);
    readers.push_back(std::make_unique<SteadyReader>(*clients[1 + i], kKnown));
  }
  ASSIGN_OR_RETURN(const Rounds rounds, AllRounds(*network, *cluster, writer, count));
  writer.Stop();
  Found known;
  for (const auto& reader : readers) known += reader->Stop();

  ASSIGN_OR_RETURN(const Clients checkers, ConnectMany(1, at_masters));
  Found left = ReadAll(checkers, kKnown);
  left += writer.ReadBack(*checkers[0]);
  const bool is_right = known.lost == 0 && known.wrong == 0 && left.lost == 0 && left.wrong == 0;
  return nlohmann::json{{"masters", kMasters},
                        {"rounds", count},
                        {"put_gap_s_max", absl::ToDoubleSeconds(kGapMax)},
                        {"faults", rounds.figures},
                        {"known_gets", known.readable},
                        {"failed_known_gets", known.lost},
                        {"failed_puts", writer.failed()},
                        {"acknowledged", left.readable + left.lost + left.wrong},
                        {"lost", left.lost},
                        {"wrong", known.wrong + left.wrong},
                        {"first_error", known.first.empty() ? left.first : known.first},
                        {"first_put_error", writer.first_error()},
                        {"ok", rounds.in_time && is_right && writer.failed() == 0}};
}

}  // namespace
}  // namespace moonpool::scenarios

int main(int argc, char** argv) {
  return moonpool::scenarios::Main("failover", argc, argv, &moonpool::scenarios::Run);
}
