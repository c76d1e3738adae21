#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "transport/sim/sim_transport.h"
#include "transport/testing/conformance.h"

namespace moonpool::sim {
namespace {

using transport::BackendUnderTest;
using transport::FakeTarget;
using transport::PeerAddress;
using transport::Server;
using transport::Transport;

class SimServer final : public Server {
 public:
  SimServer(SimFabric& fabric, FakeTarget& target) : fabric_(fabric), target_(target) {}
  ~SimServer() override { Stop(); }

  absl::Status Start() override {
    fabric_.Serve(address(), "node", &target_);
    return absl::OkStatus();
  }
  void Stop() override {
    fabric_.Stop(address());
    // Events that hold a claim must be gone before the target is.
    fabric_.scheduler().Run(fabric_.scheduler().Now() + absl::Seconds(1));
  }
  std::string address() const override { return "node:1"; }
  transport::ServerCounters counters() const override { return {}; }

 private:
  SimFabric& fabric_;
  FakeTarget& target_;
};

class SimUnderTest final : public BackendUnderTest {
 public:
  Traits traits() const override {
    return {.has_views = true,
            .has_mapped_writers = false,
            .crosses_processes = false,
            .has_sockets = false,
            .is_threaded = false};
  }
  std::unique_ptr<Server> MakeServer(FakeTarget& target) override {
    return std::make_unique<SimServer>(fabric_, target);
  }
  std::unique_ptr<Transport> MakeTransport(const ClientOptions& options) override {
    return NewSimSharedMemory(fabric_, "client", options.outstanding_ops_max.value_or(1024));
  }
  PeerAddress PeerAt(const std::string& server_address, Incarnation incarnation) override {
    return {.name = "node",
            .incarnation = incarnation,
            .host_id = "",
            .tcp_address = server_address,
            .shm_path = ""};
  }
  PeerAddress DeadPeer() override { return PeerAt("nowhere:1", Incarnation{0x1234}); }
  std::shared_ptr<void> ListenRaw(std::function<void(int)>, std::string*) override {
    return nullptr;
  }
  bool AnswerHello(int) override { return false; }
  transport::Waiter& waiter() override { return *waiter_; }

 private:
  Scheduler scheduler_;
  Network network_{scheduler_, Random(1), NetworkOptions{}};
  SimFabric fabric_{scheduler_, network_, Random(2)};
  std::unique_ptr<transport::Waiter> waiter_ = NewSimWaiter(fabric_);
};

[[maybe_unused]] const bool registered =
    transport::RegisterTransportConformance("Sim", [] { return std::make_unique<SimUnderTest>(); });

}  // namespace
}  // namespace moonpool::sim
