// Requests and answers as etcd's messages, and back. What etcd says is not trusted: an answer that
// does not fit its request is an error, never a guess.
#pragma once

#include "absl/status/statusor.h"
#include "etcd/rpc.pb.h"
#include "master/etcd/etcd.h"

namespace moonpool::master {

etcdserverpb::RangeRequest ToWire(const EtcdGet& get);
etcdserverpb::TxnRequest ToWire(const EtcdTxn& txn);
etcdserverpb::LeaseGrantRequest ToWire(const EtcdGrantLease& grant);
etcdserverpb::LeaseKeepAliveRequest ToWire(const EtcdKeepAlive& keep_alive);
etcdserverpb::LeaseRevokeRequest ToWire(const EtcdRevokeLease& revoke);
etcdserverpb::WatchRequest ToWire(const EtcdAwaitChange& await);

absl::StatusOr<EtcdAnswer> FromWire(const EtcdGet& get, const etcdserverpb::RangeResponse& wire);
absl::StatusOr<EtcdAnswer> FromWire(const EtcdTxn& txn, const etcdserverpb::TxnResponse& wire);
absl::StatusOr<EtcdAnswer> FromWire(const EtcdGrantLease& grant,
                                    const etcdserverpb::LeaseGrantResponse& wire);
absl::StatusOr<EtcdAnswer> FromWire(const EtcdKeepAlive& keep_alive,
                                    const etcdserverpb::LeaseKeepAliveResponse& wire);
absl::StatusOr<EtcdAnswer> FromWire(const EtcdRevokeLease& revoke,
                                    const etcdserverpb::LeaseRevokeResponse& wire);
// On a stream: whether this is what was waited for. A watch says other things first.
inline bool IsAnswer(const etcdserverpb::LeaseKeepAliveResponse&) { return true; }
bool IsAnswer(const etcdserverpb::WatchResponse& wire);
absl::StatusOr<EtcdAnswer> FromWire(const EtcdAwaitChange& await,
                                    const etcdserverpb::WatchResponse& wire);

}  // namespace moonpool::master
