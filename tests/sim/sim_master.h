// A master in the simulated cluster: the real core and handlers, reign by reign, with the network
// in front. It is alone, with a disk or without; or it stands for election at an etcd.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "common/log.h"
#include "common/metrics/metrics.h"
#include "common/random.h"
#include "master/core/core.h"
#include "master/election/election.h"
#include "master/election/election_metrics.h"
#include "master/handlers/handlers.h"
#include "master/handlers/reigns.h"
#include "master/meta/reign_store.h"
#include "master/meta/testing/memory_meta_store.h"
#include "tests/sim/sim_etcd.h"
#include "tests/sim/wall_clock.h"
#include "transport/sim/network.h"
#include "transport/sim/scheduler.h"

namespace moonpool::sim {

class SimMaster {
 public:
  struct Options {
    master::CoreOptions core;
    master::HandlersOptions handlers;
    bool keeps_state = true;  // of a master that is alone
    double meta_failures = 0;
    WallClock wall_clock{0, 0};
    absl::Duration clock_offset;  // its clock runs as fast as all others, and shows another time
    std::function<void()> on_begin = [] {};  // a reign begins: clients may see what it knows
  };

  // Ticks by itself while it is up. etcd: nullptr for a master that is alone.
  SimMaster(Scheduler& scheduler, Network& network, SimEtcd* etcd, std::string host,
            const Options& options, Random random);

  const std::string& host() const { return host_; }
  std::string address() const { return host_ + ":1"; }
  // On its clock.
  absl::Time Now() const { return scheduler_.Now() + options_.clock_offset; }

  // The process dies, and with it all that it knew; its peers see their connections end.
  void Crash();
  // Another process in its place: of a later term, which knows what is in the meta store, and is up
  // when its term is durable; or one more candidate.
  void Start();
  // What happens to it happens later, in its order; its clock goes on.
  void Pause();
  void Continue();
  bool is_paused() const { return is_paused_; }
  // Starts at which the wall clock gave no greater term than the last one.
  uint64_t low_terms() const { return low_terms_; }
  void StopMetaFailures() { options_.meta_failures = 0; }
  bool is_up() const { return life_ != nullptr; }
  // It answers as the leader does, now; so it has a core.
  bool leads() const { return is_up() && life_->reigns.Admit(Now()).ok(); }
  // It must lead.
  master::Core& core() { return *life_->reigns.present()->core; }
  const master::Core& core() const { return *life_->reigns.present()->core; }
  master::Handlers& handlers() { return *life_->reigns.Find(life_->reigns.present()->reign); }
  // Of all that any master here has had a number of its own; 0 when it does not lead.
  uint64_t reign() const;

  // --- Calls. `serve` calls the handlers; `done` gets OK and the answer, or a refusal, on its
  // host.
  template <typename Request, typename Response, typename Serve>
  void Take(const Request& request, Serve serve, std::function<void(absl::Status, Response)> done);

  // --- What peers know of a process.
  uint64_t lives() const { return lives_; }
  // To be woken when the process ends before it is done with them.
  void BeginCall(uint64_t token) { life_->open_calls.insert(token); }
  void EndCall(uint64_t token, uint64_t life) {
    if (is_up() && life == lives_) life_->open_calls.erase(token);
  }
  // Runs it in this process: now, when it is no longer paused, or never.
  void On(uint64_t life, std::function<void()> what);

  // A node's stream. `deliver` gets each message at the node's host, in order; `closed` is called
  // there when the stream is gone. Returns the stream's id; 0 when there is no way to the master.
  uint64_t OpenStream(const std::string& host,
                      std::function<void(const v1::MasterMessage&)> deliver,
                      std::function<void()> closed);
  // From the node. A lost message breaks the stream.
  void SendOnStream(uint64_t stream, const v1::NodeMessage& message);
  // The node's end of it is gone.
  void CloseStream(uint64_t stream);

 private:
  struct Stream {
    std::string host;
    std::function<void(const v1::MasterMessage&)> deliver;
    std::function<void()> closed;
    master::Reign reign;
    std::unique_ptr<master::NodeSession> session;  // nullptr: refused, or not yet open
  };
  struct Raise {
    Term at_least;
    master::MetaStore::WriteDone done;
  };
  // A reign that was given to this master, until its term is durable.
  struct Beginning {
    master::Reign reign;
    std::unique_ptr<master::ReignStore> store;
    master::DurableState left;
    Term term;
  };
  // One process.
  struct Life {
    Life(master::Mastership mastership, const master::HandlersOptions& options)
        : reigns(mastership, leadership, options) {}
    master::Leadership leadership;
    metrics::Registry registry;
    master::ElectionMetrics metrics{registry};
    std::unique_ptr<master::Election> election;
    master::Reigns reigns;
    std::vector<Raise> raises;
    std::unique_ptr<Beginning> beginning;
    absl::Time begin_after = absl::InfinitePast();
    std::map<uint64_t, Stream> streams;
    std::set<uint64_t> open_calls;  // tokens of those who wait for an answer
  };

  // Alone.
  void StartAlone();
  void BeginAlone(Term term, const master::DurableState& left);
  // What a master takes for its term at its start, see TermOfThisStart in master/main.cc.
  Term TermOfThisStart();
  // Each write takes its time, and may fail.
  void FinishWriteLater();

  // Elected (sim_candidate.cc).
  void StartCandidate();
  void Drive(master::ElectionOutput out);
  void SettleRaises();
  void BeginReign();
  void OnLoaded(const absl::StatusOr<master::EtcdAnswer>& answer, Term term);
  void EndBeginning(const absl::Status& status);

  // After whatever may have had effects.
  void Pump();
  void WriteDue(master::Reigns::DueWrite due);
  void ScheduleTick();
  // nullptr when it is of another life, or broken.
  Stream* FindStream(uint64_t id);
  void OpenSession(uint64_t id);
  void PumpStream(uint64_t id);
  // Both ends learn of it, each at its own time.
  void Break(uint64_t id);
  void CloseSession(uint64_t id);

  Scheduler& scheduler_;
  Network& network_;
  SimEtcd* const etcd_;
  const std::string host_;
  Options options_;
  Random random_;
  Logger& logger_ = Logger::Null();
  Term last_term_{0};
  uint64_t low_terms_ = 0;
  uint64_t lives_ = 0;  // events of older ones are void
  std::unique_ptr<Life> life_;
  bool is_paused_ = false;
  std::vector<std::function<void()>> held_;
  master::MemoryDisk disk_;
  std::unique_ptr<master::MemoryMetaStore> starting_;
  master::MemoryMetaStore* store_ = nullptr;  // of the present life, alone
};

// A look when it is taken, and one before it is answered (R10).
template <typename Request, typename Response, typename Serve>
void SimMaster::Take(const Request& request, Serve serve,
                     std::function<void(absl::Status, Response)> done) {
  const auto admission = life_->reigns.Admit(Now());
  if (!admission.ok()) return done(admission.status(), Response());
  serve(*admission->handlers, request, Now(),
        master::DoneWith<Response>([this, life = lives_, reign = admission->reign, done](
                                       absl::Status status, Response response) {
          if (!is_up() || life != lives_) return;
          if (!master::MayAnswer(life_->leadership, reign, Now())) {
            return done(life_->reigns.Refusal(), Response());
          }
          done(std::move(status), std::move(response));
        }));
  Pump();
}

}  // namespace moonpool::sim
