#include "master/etcd/etcd_wire.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/error.h"
#include "common/status_macros.h"

namespace moonpool::master {
namespace {

namespace pb = etcdserverpb;

// A lease is a matter of seconds. More is garbled, and would not fit into a Duration's arithmetic.
constexpr int64_t kTtlSecondsMax = int64_t{1} << 31;
// No store changes that often; a greater one could not be counted on from.
constexpr int64_t kRevisionMax = int64_t{1} << 62;

absl::Status Garbled(absl::string_view what) {
  return MakeError(absl::StatusCode::kInternal, ErrorReason::kBadFrame,
                   absl::StrCat("etcd's answer makes no sense: ", what),
                   {.hint = "check that the endpoint is an etcd of version 3.4 or later"});
}

pb::RequestOp ToWire(const EtcdOp& op) {
  pb::RequestOp wire;
  if (const auto* get = std::get_if<EtcdGet>(&op)) {
    *wire.mutable_request_range() = ToWire(*get);
  } else if (const auto* put = std::get_if<EtcdPut>(&op)) {
    wire.mutable_request_put()->set_key(put->key);
    wire.mutable_request_put()->set_value(put->value);
    wire.mutable_request_put()->set_lease(put->lease);
  } else {
    wire.mutable_request_delete_range()->set_key(std::get<EtcdDelete>(op).key);
  }
  return wire;
}

pb::Compare ToWire(const EtcdCompare& compare) {
  pb::Compare wire;
  wire.set_result(pb::Compare::EQUAL);
  wire.set_key(compare.key);
  if (compare.field == EtcdCompare::Field::kCreateRevision) {
    wire.set_target(pb::Compare::CREATE);
    wire.set_create_revision(compare.equals);
  } else {
    wire.set_target(pb::Compare::MOD);
    wire.set_mod_revision(compare.equals);
  }
  return wire;
}

bool IsWithin(const EtcdGet& get, const std::string& key) {
  if (get.range_end.empty()) return key == get.key;
  return key >= get.key && (get.range_end == std::string(1, '\0') || key < get.range_end);
}

absl::StatusOr<EtcdRange> RangeFromWire(const EtcdGet& get, const pb::RangeResponse& wire,
                                        int64_t revision) {
  EtcdRange range{.records = {}, .has_more = wire.more(), .revision = revision};
  if (revision <= 0 || revision > kRevisionMax) return Garbled("a read at no revision");
  if (get.limit > 0 && wire.kvs_size() > get.limit) return Garbled("more keys than asked for");
  if (wire.more() && wire.kvs().empty()) return Garbled("more keys, after none");
  for (const mvccpb::KeyValue& kv : wire.kvs()) {
    if (!IsWithin(get, kv.key())) return Garbled("a key that was not asked for");
    if (!range.records.empty() && kv.key() <= range.records.back().key) {
      return Garbled("keys out of order");
    }
    if (kv.create_revision() <= 0 || kv.mod_revision() < kv.create_revision()) {
      return Garbled("a key of no revision");
    }
    range.records.push_back({.key = kv.key(),
                             .value = kv.value(),
                             .create_revision = kv.create_revision(),
                             .mod_revision = kv.mod_revision(),
                             .lease = kv.lease()});
  }
  return range;
}

absl::StatusOr<EtcdAnswer> LeaseFromWire(int64_t lease, int64_t ttl_seconds) {
  if (lease == 0) return Garbled("a lease without a number");
  if (ttl_seconds <= 0 || ttl_seconds > kTtlSecondsMax) return Garbled("a lease of no length");
  return EtcdLease{.lease = lease, .ttl = absl::Seconds(ttl_seconds)};
}

}  // namespace

pb::RangeRequest ToWire(const EtcdGet& get) {
  pb::RangeRequest wire;
  wire.set_key(get.key);
  wire.set_range_end(get.range_end);
  wire.set_limit(get.limit);
  wire.set_revision(get.revision);
  return wire;
}

pb::TxnRequest ToWire(const EtcdTxn& txn) {
  pb::TxnRequest wire;
  for (const EtcdCompare& compare : txn.compares) *wire.add_compare() = ToWire(compare);
  for (const EtcdOp& op : txn.success) *wire.add_success() = ToWire(op);
  for (const EtcdOp& op : txn.failure) *wire.add_failure() = ToWire(op);
  return wire;
}

pb::LeaseGrantRequest ToWire(const EtcdGrantLease& grant) {
  pb::LeaseGrantRequest wire;
  wire.set_ttl(absl::ToInt64Seconds(absl::Ceil(grant.ttl, absl::Seconds(1))));
  return wire;
}

pb::LeaseKeepAliveRequest ToWire(const EtcdKeepAlive& keep_alive) {
  pb::LeaseKeepAliveRequest wire;
  wire.set_id(keep_alive.lease);
  return wire;
}

pb::LeaseRevokeRequest ToWire(const EtcdRevokeLease& revoke) {
  pb::LeaseRevokeRequest wire;
  wire.set_id(revoke.lease);
  return wire;
}

pb::WatchRequest ToWire(const EtcdAwaitChange& await) {
  pb::WatchRequest wire;
  wire.mutable_create_request()->set_key(await.key);
  wire.mutable_create_request()->set_start_revision(await.after_revision + 1);
  return wire;
}

absl::StatusOr<EtcdAnswer> FromWire(const EtcdGet& get, const pb::RangeResponse& wire) {
  // A read of the past says in its header how far the store is now.
  const int64_t revision = get.revision > 0 ? get.revision : wire.header().revision();
  ASSIGN_OR_RETURN(EtcdRange range, RangeFromWire(get, wire, revision));
  return range;
}

absl::StatusOr<EtcdAnswer> FromWire(const EtcdTxn& txn, const pb::TxnResponse& wire) {
  const std::vector<EtcdOp>& done = wire.succeeded() ? txn.success : txn.failure;
  EtcdTxnResult result{
      .succeeded = wire.succeeded(), .revision = wire.header().revision(), .ranges = {}};
  if (result.revision <= 0 || result.revision > kRevisionMax) {
    return Garbled("a transaction at no revision");
  }
  if (wire.responses_size() != static_cast<int>(done.size())) {
    return Garbled("not one answer for each part of a transaction");
  }
  for (size_t i = 0; i < done.size(); ++i) {
    const pb::ResponseOp& response = wire.responses(static_cast<int>(i));
    if (const auto* get = std::get_if<EtcdGet>(&done[i])) {
      if (!response.has_response_range()) return Garbled("no range where one was asked for");
      ASSIGN_OR_RETURN(EtcdRange range,
                       RangeFromWire(*get, response.response_range(), result.revision));
      result.ranges.push_back(std::move(range));
    }
  }
  return result;
}

absl::StatusOr<EtcdAnswer> FromWire(const EtcdGrantLease&, const pb::LeaseGrantResponse& wire) {
  if (!wire.error().empty()) {
    return absl::Status(absl::StatusCode::kUnavailable, wire.error());
  }
  return LeaseFromWire(wire.id(), wire.ttl());
}

absl::StatusOr<EtcdAnswer> FromWire(const EtcdKeepAlive& keep_alive,
                                    const pb::LeaseKeepAliveResponse& wire) {
  if (wire.id() != keep_alive.lease) return Garbled("the answer is about another lease");
  if (wire.ttl() == 0) {
    return MakeError(absl::StatusCode::kNotFound, ErrorReason::kExpired,
                     "the lease has ended in etcd");
  }
  return LeaseFromWire(wire.id(), wire.ttl());
}

absl::StatusOr<EtcdAnswer> FromWire(const EtcdRevokeLease&, const pb::LeaseRevokeResponse&) {
  return EtcdDone{};
}

bool IsAnswer(const pb::WatchResponse& wire) {
  return wire.canceled() || wire.compact_revision() != 0 || !wire.events().empty();
}

absl::StatusOr<EtcdAnswer> FromWire(const EtcdAwaitChange& await, const pb::WatchResponse& wire) {
  // Compacted: whatever happened there, nobody can tell any more. Whoever waits has to look.
  if (wire.compact_revision() != 0) return EtcdDone{};
  if (wire.canceled()) {
    return MakeError(absl::StatusCode::kUnavailable, ErrorReason::kUnspecified,
                     absl::StrCat("etcd ended the watch: ", wire.cancel_reason()));
  }
  for (const mvccpb::Event& event : wire.events()) {
    if (event.kv().key() != await.key) return Garbled("an event of another key");
  }
  return EtcdDone{};
}

}  // namespace moonpool::master
