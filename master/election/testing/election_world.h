// Masters that stand for election at one etcd, in one process and on virtual time: the network, the
// machines and etcd fail as told.
//
// Real time is the world's; each machine's clock runs as fast and is off by an amount of its own. A
// call travels to etcd and its answer back, each with a delay of its own; either may be lost, come
// after the caller has given up, or come twice. A machine that is paused does nothing, and goes on
// later where it was.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/metrics/metrics.h"
#include "common/random.h"
#include "common/testing/test_logger.h"
#include "master/election/election.h"
#include "master/etcd/testing/fake_etcd.h"

namespace moonpool::master {

struct Faults {
  double loss = 0;       // of a message
  double duplicate = 0;  // a request that etcd gets twice, an answer that comes twice
  double straggler = 0;  // a message that takes seconds
};

class ElectionWorld {
 public:
  ElectionWorld(uint64_t seed, size_t machines);

  // The world goes on for this long. False: an invariant broke, failure() says which.
  bool Run(absl::Duration duration);
  const std::string& failure() const { return failure_; }

  absl::Time now() const { return now_; }
  size_t size() const { return machines_.size(); }
  Random& random() { return random_; }
  Faults faults;
  FakeEtcd& etcd() { return etcd_; }

  // --- What can be done to it.
  void Pause(size_t machine) { machines_[machine]->is_paused = true; }
  void Continue(size_t machine);
  void SetCut(size_t machine, bool outgoing, bool incoming);
  // Its process dies, and another one starts.
  void Restart(size_t machine);
  void Resign(size_t machine);
  void RaiseTerm(size_t machine, Term at_least);
  // Somebody else asks etcd for something.
  absl::StatusOr<EtcdAnswer> Ask(const EtcdRequest& request);
  void StopEtcd();
  void StartEtcd();
  // Nothing is cut, paused or down, and nothing is lost any more.
  void Heal();

  // --- What can be seen.
  // May answer as the leader, now; -1: nobody.
  int Leader() const;
  Election& election(size_t machine) { return *machines_[machine]->election; }
  const std::vector<ElectionEvent>& events(size_t machine) const {
    return machines_[machine]->events;
  }
  std::string Address(size_t machine) const;
  std::vector<std::string> log() const { return log_.lines(); }
  const ElectionMetrics& metrics() const { return metrics_; }

 private:
  struct Machine {
    absl::Duration offset;  // of its clock
    std::unique_ptr<Leadership> leadership;
    std::unique_ptr<Election> election;
    uint64_t life = 0;  // one more with each process
    bool is_paused = false;
    bool is_cut_outgoing = false;
    bool is_cut_incoming = false;
    std::vector<std::function<void()>> held;  // what came while it was paused
    std::vector<ElectionEvent> events;
  };
  struct Wait {
    size_t machine;
    uint64_t life;
    uint64_t call;
    EtcdAwaitChange await;
  };

  void At(absl::Time time, std::function<void()> what);
  void Boot(size_t machine);
  absl::Time LocalNow(size_t machine) const { return now_ + machines_[machine]->offset; }
  // Does it on the machine, in this process of it: now, or when it is no longer paused.
  void On(size_t machine, uint64_t life, std::function<void()> what);
  void Drive(size_t machine, ElectionOutput out);
  void Send(size_t machine, ElectionCall call);
  void Arrive(size_t machine, uint64_t life, const ElectionCall& call);
  void Answer(size_t machine, uint64_t life, uint64_t call, absl::StatusOr<EtcdAnswer> answer);
  void WakeWaits();
  void SweepLeases();
  absl::Duration Delay();
  bool Chance(double probability) { return random_.Uniform() < probability; }

  void NoteEvent(const ElectionEvent& event);
  void CheckOneLeader();
  void Fail(const std::string& what);

  Random random_;
  absl::Time now_ = absl::UnixEpoch() + absl::Hours(1000);
  uint64_t steps_ = 0;
  std::map<std::pair<absl::Time, uint64_t>, std::function<void()>> agenda_;
  FakeEtcd etcd_;
  bool is_etcd_up_ = true;
  std::vector<Wait> waits_;
  std::vector<std::unique_ptr<Machine>> machines_;
  // Of processes that died while they led: until when they might have answered.
  std::vector<absl::Time> ghosts_;
  std::map<int64_t, std::pair<Term, Term>> terms_by_reign_;  // lowest and highest
  std::string failure_;

  TestLogger log_;
  metrics::Registry registry_;
  ElectionMetrics metrics_{registry_};
};

}  // namespace moonpool::master
