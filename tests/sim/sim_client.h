// A client process in the simulated cluster: the real client logic, doing what engines do, with
// every result told to the model.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "client_sdk/core/core_client.h"
#include "common/log.h"
#include "common/random.h"
#include "tests/sim/model.h"
#include "tests/sim/options.h"
#include "tests/sim/sim_master.h"
#include "transport/sim/sim_transport.h"

namespace moonpool::sim {

// What all clients of a run share.
struct ClientWorld {
  Scheduler& scheduler;
  Network& network;
  SimFabric& fabric;
  SimMaster& master;
  Model& model;
  const SimOptions& options;
  const Logger& logger;
  std::string* violation;  // the first one; ends the run
};

class SimClient {
 public:
  SimClient(ClientWorld world, std::string host, uint64_t id, Random random);

  // The body of its actor: works until `until`, or until it has crashed.
  void Work(absl::Time until);
  // Body of a last actor, with everything healed: what is said to exist must be readable.
  void ReadEverything();

  // From now on nothing that it does is seen by anybody. Its actor ends by itself.
  void Crash();
  bool crashed() const { return crashed_; }
  const std::string& host() const { return host_; }
  ClientStats stats() const { return client_.stats(); }

 private:
  struct Deadline {
    CallOptions options;
    absl::Time at;
  };
  Deadline RandomTimeout();
  static bool IsTimeout(const absl::Status& status, const Deadline& deadline, absl::Time begun,
                        absl::Time now);
  std::string KeyOf(int chain, int block) const;
  std::string RandomKey();
  std::vector<std::string> RandomChain();
  void Report(const std::string& violation);
  void ReportOn(const std::string& key, const std::string& violation);

  void Put();
  void Get(const std::vector<std::string>& keys);
  void MatchAndGet();
  void Remove();
  void Exists();

  ClientWorld world_;
  const std::string host_;
  const uint64_t id_;
  Random random_;
  std::unique_ptr<client::MasterStub> stub_;
  std::unique_ptr<transport::Transport> transport_;
  std::unique_ptr<transport::Waiter> waiter_;
  client::CoreClient client_;
  bool patient_ = false;
  bool crashed_ = false;
};

}  // namespace moonpool::sim
