// A client process in the simulated cluster: the real client logic, doing what engines do, with
// every result told to the model.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "client_sdk/core/core_client.h"
#include "common/log.h"
#include "common/random.h"
#include "tests/sim/model.h"
#include "tests/sim/options.h"
#include "tests/sim/sim_masters.h"
#include "transport/sim/sim_transport.h"

namespace moonpool::sim {

// What all clients of a run share.
struct ClientWorld {
  Scheduler& scheduler;
  Network& network;
  SimFabric& fabric;
  SimMasters& masters;
  Model& model;
  const SimOptions& options;
  const Logger& logger;
  std::string* violation;  // the first one; ends the run
  // Which master it is (they are counted), when it has had an inventory of every node that holds
  // anything; else 0.
  std::function<uint64_t()> all_knowing_master;
};

class SimClient {
 public:
  SimClient(ClientWorld world, std::string host, uint64_t id, Random random);

  // The body of its actor: works until `until`, or until it has crashed.
  void Work(absl::Time until);
  // Body of a last actor, with everything healed: what is said to exist must be readable.
  void ReadEverything();
  // Body of another one: one small object, which nobody has put before.
  void PutOne(const std::string& key);

  // From now on nothing that it does is seen by anybody. Its actor ends by itself.
  void Crash();
  // The process is paused, wherever it is: what it sent goes on, and what it holds it keeps.
  void Freeze();
  void Thaw();
  bool frozen() const { return is_frozen_; }
  bool crashed() const { return crashed_; }
  const std::string& host() const { return host_; }
  ClientStats stats() const { return client_.stats(); }
  // It has looked at the bytes, and looks again without verifying them while it knows the place.
  bool Trusts(const std::string& key) const { return viewed_.contains(key); }
  uint64_t views_kept_frozen() const { return views_kept_frozen_; }

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
  // A call that ends late, but not because its process was paused.
  void ReportTime(const char* call, const Deadline& deadline);
  void ReportOn(const std::string& key, const std::string& violation);

  struct Value {
    std::string key;
    std::string parent;
    size_t size = 0;
  };
  void Put();
  // What is missing of some chains, one block after the other, all of a size: so the master grants
  // ahead of them.
  void PutBlocks();
  void Put(const std::vector<Value>& values, PutOptions options);
  void Get(const std::vector<std::string>& keys);
  void MatchAndGet();
  void Remove();
  void Exists();
  void LookAt(const std::string& key);
  // What is viewed does not change while its node lives; then some views are closed.
  void CheckViews();

  ClientWorld world_;
  const std::string host_;
  const uint64_t id_;
  Random random_;
  int starts_ = 0;  // StartPuts that the present put has sent
  int sent_ = 0;    // requests of the present removal
  std::unique_ptr<client::MasterStub> stub_;
  std::unique_ptr<transport::Transport> transport_;
  std::unique_ptr<transport::Transport> shared_memory_;
  std::unique_ptr<transport::Waiter> waiter_;
  client::CoreClient client_;
  struct OpenView {
    std::string key;
    View view;
    std::vector<std::byte> copy;
  };
  std::vector<OpenView> views_;
  std::set<std::string> viewed_;
  uint64_t views_kept_frozen_ = 0;
  bool patient_ = false;
  bool is_frozen_ = false;
  absl::Time thawed_at_ = absl::InfinitePast();
  bool crashed_ = false;
};

}  // namespace moonpool::sim
