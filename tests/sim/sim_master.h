// A master in the simulated cluster: the real core and handlers, with the network in front.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "client_sdk/core/master_stub.h"
#include "common/random.h"
#include "master/core/core.h"
#include "master/handlers/handlers.h"
#include "transport/sim/network.h"
#include "transport/sim/scheduler.h"

namespace moonpool::sim {

class SimMaster {
 public:
  struct Options {
    master::CoreOptions core;
    master::HandlersOptions handlers;
    Term term{1};
  };

  // Ticks by itself until Stop.
  SimMaster(Scheduler& scheduler, Network& network, const Options& options, Random random);

  static constexpr char kHost[] = "master";

  master::Core& core() { return core_; }
  master::Handlers& handlers() { return handlers_; }
  // Events of calls and sessions that are under way find nothing any more.
  void Stop();
  bool stopped() const { return stopped_; }

  // The stub of a client process on `host`.
  std::unique_ptr<client::MasterStub> NewStub(const std::string& host);

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
    bool pumping = false;
  };

  void ScheduleTick();
  void Pump(uint64_t id);
  // Both ends learn of it, each at its own time.
  void Break(uint64_t id);

  Scheduler& scheduler_;
  Network& network_;
  master::Core core_;
  master::Handlers handlers_;
  std::map<uint64_t, Stream> streams_;
  bool stopped_ = false;
};

}  // namespace moonpool::sim
