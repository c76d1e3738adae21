// A process that stands for election and does nothing else:
//   etcd-candidate ENDPOINT PREFIX ADDRESS
// Each line on its standard output is an event, or a look at its leadership that found it changed;
// times are nanoseconds of the machine's monotonic clock, one for all processes:
//   leader TERM REIGN | follower ADDRESS | lost NOW
//   leads REIGN NOW DEADLINE | silent NOW
// SIGTERM: it resigns and ends.
#include <cstdio>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "common/error.h"
#include "common/program/stop_signals.h"
#include "common/random.h"
#include "master/election/election.h"
#include "master/etcd/etcd_client.h"
#include "master/service/election_thread.h"

namespace moonpool::master {
namespace {

constexpr absl::Duration kLook = absl::Milliseconds(2);

// From both threads.
void Say(const std::string& line) {
  static absl::Mutex mutex(absl::kConstInit);
  absl::MutexLock lock(&mutex);
  std::puts(line.c_str());
  std::fflush(stdout);
}

void SayEvent(const ElectionEvent& event) {
  switch (event.kind) {
    case ElectionEvent::Kind::kLeader:
      return Say(absl::StrCat("leader ", event.term.value, " ", event.reign.value));
    case ElectionEvent::Kind::kFollower: return Say(absl::StrCat("follower ", event.leader));
    case ElectionEvent::Kind::kLost:
      return Say(absl::StrCat("lost ", absl::ToUnixNanos(SteadyClock().Now())));
  }
}

int Run(const std::string& endpoint, const std::string& prefix, const std::string& address) {
  const StopSignals stop;
  const SteadyClock clock;
  Logger logger({.level = LogLevel::kInfo, .format = LogFormat::kText}, "etcd-candidate");
  metrics::Registry registry;
  ElectionMetrics metrics(registry);
  auto etcd = EtcdClient::Create({.endpoints = {endpoint}}, clock, logger);
  if (!etcd.ok()) {
    std::fprintf(stderr, "%s\n", Describe(etcd.status()).c_str());
    return 1;
  }
  Leadership leadership;
  ElectionThread election(
      std::make_unique<Election>(ElectionOptions{.prefix = prefix, .address = address},
                                 Random(EntropySeed()), leadership, metrics, logger),
      **etcd, clock, SayEvent);
  election.Start();
  Reign seen;
  absl::Time seen_deadline;
  while (!stop.WaitFor(kLook)) {
    // In the order of a service: first the time, then the leadership.
    const absl::Time now = clock.Now();
    const Reign reign = election.leadership().ReignAt(now);
    const absl::Time deadline = election.leadership().deadline();
    if (reign == seen && (reign == Reign{} || deadline == seen_deadline)) continue;
    if (reign == Reign{}) {
      Say(absl::StrCat("silent ", absl::ToUnixNanos(now)));
    } else {
      Say(absl::StrCat("leads ", reign.value, " ", absl::ToUnixNanos(now), " ",
                       absl::ToUnixNanos(deadline)));
    }
    seen = reign;
    seen_deadline = deadline;
  }
  election.Stop();
  return 0;
}

}  // namespace
}  // namespace moonpool::master

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  return moonpool::master::Run(argv[1], argv[2], argv[3]);
}
