// The transport backend of the simulator: the same operations on the same Target, over a network
// that delays, loses and cuts, with writes that land piece by piece and reads that may be torn.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "common/random.h"
#include "transport/channel.h"
#include "transport/sim/network.h"
#include "transport/sim/scheduler.h"
#include "transport/target.h"
#include "transport/waiter.h"

namespace moonpool::sim {

// Faults of the data path beyond those of the network. Probabilities are per operation.
struct DataFaults {
  double duplicate_write = 0.0;  // the message of a write arrives a second time, later
  double bit_flip = 0.0;         // one bit of what is read or written changes on the way
};

// Everything that the simulated data path shares: who serves at which address.
class SimFabric {
 public:
  class Viewer;
  // One connection; events may outlive both of its ends.
  struct Link {
    bool answered = false;  // the handshake
    bool broken = false;
    uint64_t waiting = 0;  // token of whoever waits for the channel
  };
  struct Server {
    std::string host;
    transport::Target* target = nullptr;
    bool alive = true;
    bool paused = false;
    std::vector<std::function<void()>> held = {};  // what waits for the end of the pause
    std::vector<std::weak_ptr<Link>> links = {};
    std::vector<std::weak_ptr<Viewer>> viewers = {};

    // What the process does it does now, or when it goes on.
    void Do(std::function<void()> what) { paused ? held.push_back(std::move(what)) : what(); }
  };

  SimFabric(Scheduler& scheduler, Network& network, Random random)
      : scheduler_(scheduler), network_(network), random_(random) {}

  // From now on `address` is served by `target` on `host`.
  void Serve(const std::string& address, const std::string& host, transport::Target* target);
  // The process is gone: what is in flight to it is dropped, its target is not used again, and its
  // peers see their connections end.
  void Stop(const std::string& address);
  // The process is stopped, and may be continued: connections stay, and what arrives waits. Its
  // memory is read by those who have it mapped.
  void Pause(const std::string& address);
  void Continue(const std::string& address);
  std::shared_ptr<Server> Find(const std::string& address) const;
  // The client process of this name is gone: with it go its pins, as with a Unix socket that the
  // operating system closes.
  void CloseViewers(const std::string& client_host);

  Scheduler& scheduler() { return scheduler_; }
  Network& network() { return network_; }
  Random& random() { return random_; }
  DataFaults& faults() { return faults_; }
  void MayFlip(absl::Span<std::byte> bytes);

 private:
  Scheduler& scheduler_;
  Network& network_;
  Random random_;
  DataFaults faults_;
  std::map<std::string, std::shared_ptr<Server>> servers_;
};

// The transport of a client process on `host`. A channel has at most `outstanding_max` operations
// under way.
std::unique_ptr<transport::Transport> NewSimTransport(SimFabric& fabric, std::string host,
                                                      size_t outstanding_max = 1024);
// The same with views: the client process has the memory of its peers mapped.
std::unique_ptr<transport::Transport> NewSimSharedMemory(SimFabric& fabric, std::string host,
                                                         size_t outstanding_max = 1024);

// Blocks in virtual time.
std::unique_ptr<transport::Waiter> NewSimWaiter(SimFabric& fabric);

}  // namespace moonpool::sim
