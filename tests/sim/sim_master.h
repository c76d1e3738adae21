// A master in the simulated cluster: the real core and handlers, with the network in front.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "client_sdk/core/master_stub.h"
#include "common/random.h"
#include "master/core/core.h"
#include "master/handlers/handlers.h"
#include "master/meta/testing/memory_meta_store.h"
#include "transport/sim/network.h"
#include "transport/sim/scheduler.h"

namespace moonpool::sim {

class SimMaster {
 public:
  struct Options {
    master::CoreOptions core;
    master::HandlersOptions handlers;
    bool keeps_state = true;
    double meta_failures = 0;
  };

  // Ticks by itself while it is up.
  SimMaster(Scheduler& scheduler, Network& network, const Options& options, Random random);

  static constexpr char kHost[] = "master";

  // It must be up.
  master::Core& core() { return life_->core; }
  master::Handlers& handlers() { return life_->handlers; }
  // The process dies, and with it all that it knew; its peers see their connections end.
  void Crash();
  // Another process in its place, of a later term, which knows what is in the meta store. It is up
  // when its term is durable.
  void Start();
  // To be called after every call of the handlers: what is to be durable is written.
  void PumpWrites();
  void StopMetaFailures() { options_.meta_failures = 0; }
  bool is_up() const { return life_ != nullptr; }
  uint64_t lives() const { return lives_; }

  // The stub of a client process on `host`. `on_start`: it sends a StartPuts.
  std::unique_ptr<client::MasterStub> NewStub(const std::string& host,
                                              std::function<void()> on_start);

  // A node's stream. `deliver` gets each message at the node's host, in order; `closed` is called
  // there when the stream is gone. Returns the stream's id; 0 when the master refuses it.
  uint64_t OpenStream(const std::string& host,
                      std::function<void(const v1::MasterMessage&)> deliver,
                      std::function<void()> closed);
  // From the node. A lost message breaks the stream.
  void SendOnStream(uint64_t stream, const v1::NodeMessage& message);
  void CloseStream(uint64_t stream);

 private:
  friend class SimStub;
  struct Stream {
    std::string host;
    std::unique_ptr<master::NodeSession> session;
    std::function<void(const v1::MasterMessage&)> deliver;
    std::function<void()> closed;
  };
  // One process.
  struct Life {
    Life(const Options& options, Term term, Random random, absl::Time now)
        : core(options.core, term, random), handlers(core, options.handlers, now) {}
    Life(const Options& options, Term term, Random random, absl::Time now,
         const master::DurableState& left)
        : core(options.core, term, random, left), handlers(core, options.handlers, now) {}
    master::Core core;
    master::Handlers handlers;
    std::map<uint64_t, Stream> streams;
    std::set<uint64_t> open_calls;  // tokens of those who wait for an answer
  };

  void StartWithStore();
  // Each write takes its time, and may fail.
  void FinishWriteLater();
  void ScheduleTick();
  // nullptr when it is of another life, or broken.
  Stream* FindStream(uint64_t id);
  void Pump(uint64_t id);
  // Both ends learn of it, each at its own time.
  void Break(uint64_t id);

  Scheduler& scheduler_;
  Network& network_;
  Options options_;
  Random random_;
  Term last_term_{0};
  uint64_t lives_ = 0;  // events of older ones are void
  std::unique_ptr<Life> life_;
  master::MemoryDisk disk_;
  std::unique_ptr<master::MemoryMetaStore> store_;
};

}  // namespace moonpool::sim
