// etcd's behaviour, without etcd: keys with revisions, transactions, and leases on a time line that
// the caller moves. No network: requests are applied at once, in the order they come.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "master/etcd/etcd.h"

namespace moonpool::master {

// Used by one thread at a time. `now` never goes back.
class FakeEtcd {
 public:
  static constexpr size_t kOpsMax = 128;  // etcd's own default
  static constexpr absl::Duration kLeaseMin = absl::Seconds(2);

  // A wait for a change is answered with whether there has been one yet: DEADLINE_EXCEEDED = no.
  absl::StatusOr<EtcdAnswer> Apply(const EtcdRequest& request, absl::Time now);

  // Ends the leases that have run out. A real one does so each half second.
  void ExpireLeases(absl::Time now);
  // Another member leads etcd, or it was restarted: each lease gets its whole length again.
  void RenewLeases(absl::Time now);

  int64_t revision() const { return revision_; }
  bool HasChanged(const EtcdAwaitChange& await) const;
  // Empty when there is none.
  std::string Value(const std::string& key) const;

 private:
  struct Lease {
    absl::Duration ttl;
    absl::Time end;
  };
  using Store = std::map<std::string, EtcdKeyValue>;

  absl::StatusOr<EtcdAnswer> Get(const EtcdGet& get) const;
  absl::StatusOr<EtcdAnswer> Txn(const EtcdTxn& txn);
  absl::Status Check(const std::vector<EtcdOp>& ops) const;
  bool Holds(const EtcdCompare& compare) const;
  void Revoke(int64_t lease);
  void Change(const std::string& key, const EtcdPut* put, int64_t revision);

  int64_t revision_ = 1;
  int64_t leases_granted_ = 0;
  Store store_;
  std::map<int64_t, Store> history_;  // as it was at the newest revisions
  std::map<std::string, int64_t> changed_at_;
  std::map<int64_t, Lease> leases_;
};

}  // namespace moonpool::master
