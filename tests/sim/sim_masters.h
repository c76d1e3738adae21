// All masters of the simulated cluster, and how clients call the one that leads.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "client_sdk/core/master_stub.h"
#include "tests/sim/sim_etcd.h"
#include "tests/sim/sim_master.h"

namespace moonpool::sim {

class SimMasters {
 public:
  // One that is alone, on the host "master"; or several, "master-0" and so on, with their etcd.
  SimMasters(Scheduler& scheduler, Network& network, int count, SimMaster::Options options,
             Random random);

  size_t size() const { return masters_.size(); }
  SimMaster& at(size_t index) { return *masters_[index]; }
  SimMaster* Find(const std::string& address);
  // Who answers as the leader, now.
  SimMaster* leader();
  std::vector<std::string> addresses() const;
  SimEtcd* etcd() { return etcd_.get(); }  // nullptr: there is a lone master
  void StopMetaFailures();

  // The stub of a client process on `host`. `on_start`: it is to send a StartPuts. `on_sent`: a
  // request of any kind leaves, for one master.
  struct StubEvents {
    std::function<void()> on_start;
    std::function<void()> on_sent;
    // A master has said what none may say.
    std::function<void(const std::string&)> on_nonsense;
  };
  std::unique_ptr<client::MasterStub> NewStub(const std::string& host, StubEvents events);

 private:
  friend class SimStub;
  Scheduler& scheduler_;
  Network& network_;
  std::unique_ptr<SimEtcd> etcd_;
  std::vector<std::unique_ptr<SimMaster>> masters_;
};

}  // namespace moonpool::sim
