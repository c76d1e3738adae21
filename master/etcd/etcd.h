// What masters ask of etcd, as plain structs behind one interface: the logic above it knows no
// gRPC, and runs against a real etcd, a fake, or the simulator.
//
//   etcd.Call(EtcdTxn{.compares = {EtcdCompare::CreatedAt("/moonpool/c/leader", 0)},
//                     .success = {EtcdPut{"/moonpool/c/leader", value, lease}}},
//             absl::Seconds(1), [](absl::StatusOr<EtcdAnswer> answer) { ... });
//
// Revisions count the changes of the whole store. A key has the revision at which it last came into
// being and that of its last change; 0 = it does not exist.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace moonpool::master {

struct EtcdKeyValue {
  std::string key;
  std::string value;
  int64_t create_revision = 0;
  int64_t mod_revision = 0;
  int64_t lease = 0;  // 0 = none
};

// --- Requests. The answer to each is named beside it.

struct EtcdGet {  // EtcdRange
  std::string key;
  std::string range_end = {};  // exclusive; empty = only `key`
  int64_t limit = 0;           // 0 = all
  int64_t revision = 0;        // 0 = the newest
};
struct EtcdPut {
  std::string key;
  std::string value;
  int64_t lease = 0;
};
struct EtcdDelete {
  std::string key;
};
using EtcdOp = std::variant<EtcdGet, EtcdPut, EtcdDelete>;

struct EtcdCompare {
  enum class Field { kCreateRevision, kModRevision };
  Field field;
  std::string key;
  int64_t equals;

  static EtcdCompare CreatedAt(std::string key, int64_t revision) {
    return {Field::kCreateRevision, std::move(key), revision};
  }
  static EtcdCompare ChangedAt(std::string key, int64_t revision) {
    return {Field::kModRevision, std::move(key), revision};
  }
};
// Atomic: `success` when all compares hold, else `failure`. No key may be changed twice in one.
struct EtcdTxn {  // EtcdTxnResult
  std::vector<EtcdCompare> compares = {};
  std::vector<EtcdOp> success = {};
  std::vector<EtcdOp> failure = {};
};
struct EtcdGrantLease {  // EtcdLease
  absl::Duration ttl;    // whole seconds
};
// NOT_FOUND when there is no such lease any more.
struct EtcdKeepAlive {  // EtcdLease
  int64_t lease;
};
struct EtcdRevokeLease {  // EtcdDone
  int64_t lease;
};
// Waits until the key is put or deleted later than the revision. DEADLINE_EXCEEDED: it was not.
struct EtcdAwaitChange {  // EtcdDone
  std::string key;
  int64_t after_revision;
};
using EtcdRequest =
    std::variant<EtcdGet, EtcdTxn, EtcdGrantLease, EtcdKeepAlive, EtcdRevokeLease, EtcdAwaitChange>;

// --- Answers.

struct EtcdRange {
  std::vector<EtcdKeyValue> records = {};  // in order of key
  bool has_more = false;                   // the limit cut it off
  int64_t revision = 0;                    // of the store when it was read
};
struct EtcdTxnResult {
  bool succeeded = false;
  int64_t revision = 0;  // of the store behind it; a change made by it carries this one
  std::vector<EtcdRange> ranges = {};  // of the gets that were done, in their order
};
struct EtcdLease {
  int64_t lease = 0;
  absl::Duration ttl = {};  // what etcd grants may be more than what it was asked for
};
struct EtcdDone {};
using EtcdAnswer = std::variant<EtcdRange, EtcdTxnResult, EtcdLease, EtcdDone>;

// Thread-safe.
class Etcd {
 public:
  using Done = absl::AnyInvocable<void(absl::StatusOr<EtcdAnswer>) &&>;

  virtual ~Etcd() = default;
  // `done` is called exactly once, within the timeout, on any thread, perhaps before Call returns;
  // it must not block. An answer is of the kind that belongs to the request. An error of these
  // codes leaves open whether a change was made: UNAVAILABLE, DEADLINE_EXCEEDED, CANCELLED,
  // INTERNAL.
  virtual void Call(EtcdRequest request, absl::Duration timeout, Done done) = 0;
};

// The end of the range of all keys that start with `prefix` (which is not empty).
std::string EtcdPrefixEnd(std::string prefix);

}  // namespace moonpool::master
