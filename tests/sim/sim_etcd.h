// etcd in the simulated cluster, behind its network; and the meta store of a reign on top of it.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/random.h"
#include "master/election/leadership.h"
#include "master/etcd/testing/fake_etcd.h"
#include "master/meta/meta_store.h"
#include "tests/sim/options.h"
#include "transport/sim/network.h"
#include "transport/sim/scheduler.h"

namespace moonpool::sim {

class SimEtcd {
 public:
  static constexpr char kHost[] = "etcd";
  static constexpr char kPrefix[] = "/sim";
  using Done = std::function<void(absl::StatusOr<master::EtcdAnswer>)>;

  SimEtcd(Scheduler& scheduler, Network& network, Random random);

  // From a process on `host`. `done` is called there, once, within the timeout; whether the request
  // was carried out is open when it fails.
  void Call(const std::string& host, master::EtcdRequest request, absl::Duration timeout,
            Done done);
  // Its processes are away, and come back with all they had; leases get their whole length again.
  void Stop();
  void Start();
  bool is_up() const { return is_up_; }
  void set_faults(const EtcdFaults& faults) { faults_ = faults; }
  uint64_t repeated() const { return repeated_; }

 private:
  struct Wait {
    master::EtcdAwaitChange await;
    Done answer;
  };
  void Arrive(const master::EtcdRequest& request, const Done& answer);
  // Now, or when others have overtaken it.
  void SendSoonOrLate(const std::function<void()>& send);
  void WakeWaits();
  void SweepLeases();

  Scheduler& scheduler_;
  Network& network_;
  Random random_;
  EtcdFaults faults_;
  uint64_t repeated_ = 0;
  master::FakeEtcd etcd_;
  bool is_up_ = true;
  std::vector<Wait> waits_;
};

// What EtcdMetaStore does on a thread: writes in their order, each fenced by the reign and by the
// write before it, repeated while their outcome is open.
class SimReignRecords final : public master::MetaStore {
 public:
  // `run`: calls what it is given when the process is not paused, or never when it is gone.
  using Run = std::function<void(std::function<void()>)>;
  SimReignRecords(Scheduler& scheduler, SimEtcd& etcd, std::string host, master::Reign reign,
                  Run run);
  // Writes that are not through end with UNAVAILABLE.
  ~SimReignRecords() override;

  absl::StatusOr<std::vector<master::MetaRecord>> Load(absl::Time deadline) override;
  void Write(master::MetaBatch batch, WriteDone done) override;

 private:
  struct Pending {
    master::MetaBatch batch;
    WriteDone done;
    absl::Time deadline;
    std::string tag;
    bool may_be_written = false;
  };
  void Send();
  void Take(const absl::StatusOr<master::EtcdAnswer>& answer);
  void Judge(const master::EtcdTxnResult& found);
  void Finish(const absl::Status& status);

  Scheduler& scheduler_;
  SimEtcd& etcd_;
  const std::string host_;
  const master::Reign reign_;
  const Run run_;
  const std::shared_ptr<bool> is_alive_ = std::make_shared<bool>(true);
  std::deque<Pending> queue_;  // the first is under way
  int64_t writer_revision_ = 0;
  uint64_t writes_ = 0;
};

}  // namespace moonpool::sim
