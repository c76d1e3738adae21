#include "master/etcd/testing/fake_etcd.h"

#include <algorithm>
#include <set>
#include <utility>

#include "common/status_macros.h"

namespace moonpool::master {
namespace {

constexpr size_t kRevisionsKept = 64;

absl::Status NoSuchLease() { return absl::NotFoundError("etcdserver: requested lease not found"); }

}  // namespace

absl::StatusOr<EtcdAnswer> FakeEtcd::Apply(const EtcdRequest& request, absl::Time now) {
  if (const auto* get = std::get_if<EtcdGet>(&request)) return Get(*get);
  if (const auto* txn = std::get_if<EtcdTxn>(&request)) return Txn(*txn);
  if (const auto* grant = std::get_if<EtcdGrantLease>(&request)) {
    const absl::Duration ttl = std::max(grant->ttl, kLeaseMin);
    leases_[++leases_granted_] = {.ttl = ttl, .end = now + ttl};
    return EtcdLease{.lease = leases_granted_, .ttl = ttl};
  }
  if (const auto* keep_alive = std::get_if<EtcdKeepAlive>(&request)) {
    const auto lease = leases_.find(keep_alive->lease);
    if (lease == leases_.end()) return NoSuchLease();
    lease->second.end = now + lease->second.ttl;
    return EtcdLease{.lease = lease->first, .ttl = lease->second.ttl};
  }
  if (const auto* revoke = std::get_if<EtcdRevokeLease>(&request)) {
    if (!leases_.contains(revoke->lease)) return NoSuchLease();
    Revoke(revoke->lease);
    return EtcdDone{};
  }
  if (HasChanged(std::get<EtcdAwaitChange>(request))) return EtcdDone{};
  return absl::DeadlineExceededError("no change yet");
}

absl::StatusOr<EtcdAnswer> FakeEtcd::Get(const EtcdGet& get) const {
  const Store* store = &store_;
  if (get.revision > 0 && get.revision != revision_) {
    const auto then = history_.find(get.revision);
    if (then == history_.end()) {
      return absl::OutOfRangeError("etcdserver: mvcc: required revision has been compacted");
    }
    store = &then->second;
  }
  EtcdRange range{.revision = get.revision > 0 ? get.revision : revision_};
  for (auto it = store->lower_bound(get.key); it != store->end(); ++it) {
    if (get.range_end.empty() ? it->first != get.key : it->first >= get.range_end) break;
    if (get.limit > 0 && range.records.size() == static_cast<size_t>(get.limit)) {
      range.has_more = true;
      break;
    }
    range.records.push_back(it->second);
  }
  return range;
}

bool FakeEtcd::Holds(const EtcdCompare& compare) const {
  const auto it = store_.find(compare.key);
  const EtcdKeyValue record = it == store_.end() ? EtcdKeyValue{} : it->second;
  return compare.equals == (compare.field == EtcdCompare::Field::kCreateRevision
                                ? record.create_revision
                                : record.mod_revision);
}

absl::Status FakeEtcd::Check(const std::vector<EtcdOp>& ops) const {
  if (ops.size() > kOpsMax) {
    return absl::InvalidArgumentError("etcdserver: too many operations in txn request");
  }
  std::set<std::string> changed;
  for (const EtcdOp& op : ops) {
    const auto* put = std::get_if<EtcdPut>(&op);
    const auto* deletion = std::get_if<EtcdDelete>(&op);
    if (put == nullptr && deletion == nullptr) continue;
    if (!changed.insert(put != nullptr ? put->key : deletion->key).second) {
      return absl::InvalidArgumentError("etcdserver: duplicate key given in txn request");
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<EtcdAnswer> FakeEtcd::Txn(const EtcdTxn& txn) {
  RETURN_IF_ERROR(Check(txn.success));
  RETURN_IF_ERROR(Check(txn.failure));
  EtcdTxnResult result;
  result.succeeded = std::all_of(txn.compares.begin(), txn.compares.end(),
                                 [this](const EtcdCompare& compare) { return Holds(compare); });
  const std::vector<EtcdOp>& ops = result.succeeded ? txn.success : txn.failure;
  bool is_change = false;
  for (const EtcdOp& op : ops) {
    is_change |= !std::holds_alternative<EtcdGet>(op);
    const auto* put = std::get_if<EtcdPut>(&op);
    if (put != nullptr && put->lease != 0 && !leases_.contains(put->lease)) return NoSuchLease();
  }
  const int64_t revision = revision_ + (is_change ? 1 : 0);
  if (is_change) history_.emplace(revision_, store_);
  if (history_.size() > kRevisionsKept) history_.erase(history_.begin());
  for (const EtcdOp& op : ops) {
    if (const auto* get = std::get_if<EtcdGet>(&op)) {
      ASSIGN_OR_RETURN(EtcdAnswer range, Get(*get));
      result.ranges.push_back(std::get<EtcdRange>(std::move(range)));
    } else if (const auto* put = std::get_if<EtcdPut>(&op)) {
      Change(put->key, put, revision);
    } else {
      Change(std::get<EtcdDelete>(op).key, nullptr, revision);
    }
  }
  result.revision = revision_ = revision;
  return result;
}

void FakeEtcd::Change(const std::string& key, const EtcdPut* put, int64_t revision) {
  changed_at_[key] = revision;
  if (put == nullptr) {
    store_.erase(key);
    return;
  }
  EtcdKeyValue& record = store_[key];
  if (record.create_revision == 0) record.create_revision = revision;
  record.key = key;
  record.value = put->value;
  record.mod_revision = revision;
  record.lease = put->lease;
}

void FakeEtcd::Revoke(int64_t lease) {
  leases_.erase(lease);
  std::vector<std::string> bound;
  for (const auto& [key, record] : store_) {
    if (record.lease == lease) bound.push_back(key);
  }
  if (bound.empty()) return;
  history_.emplace(revision_, store_);
  for (const std::string& key : bound) Change(key, nullptr, revision_ + 1);
  ++revision_;
}

void FakeEtcd::ExpireLeases(absl::Time now) {
  std::vector<int64_t> ended;
  for (const auto& [id, lease] : leases_) {
    if (lease.end <= now) ended.push_back(id);
  }
  for (const int64_t id : ended) Revoke(id);
}

void FakeEtcd::RenewLeases(absl::Time now) {
  for (auto& [id, lease] : leases_) lease.end = now + lease.ttl;
}

bool FakeEtcd::HasChanged(const EtcdAwaitChange& await) const {
  const auto changed = changed_at_.find(await.key);
  return changed != changed_at_.end() && changed->second > await.after_revision;
}

std::string FakeEtcd::Value(const std::string& key) const {
  const auto it = store_.find(key);
  return it == store_.end() ? "" : it->second.value;
}

}  // namespace moonpool::master
