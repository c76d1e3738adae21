// What all calls of one client share: the master, the peers, the locations, time and chance.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client_sdk/core/backoff.h"
#include "client_sdk/core/batch_io.h"
#include "client_sdk/core/counters.h"
#include "client_sdk/core/location_cache.h"
#include "client_sdk/core/master_stub.h"
#include "client_sdk/core/peers.h"
#include "client_sdk/core/spare_stock.h"
#include "common/call_context.h"
#include "common/error.h"
#include "common/log.h"
#include "common/status_macros.h"
#include "moonpool/client.h"
#include "transport/waiter.h"

namespace moonpool::client {

struct SessionOptions {
  std::string name_space = "default";
  uint64_t client_id = 0;  // random per process
  uint64_t seed = 0;       // of request ids and jitter: different in every process
  bool verify = true;
  absl::Duration timeout = absl::Seconds(10);  // of calls that give none
  bool wait_for_master = true;
  size_t location_cache_entries = 1 << 16;
  // Largest object that a Get allocates for: its size is the master's word until it is read.
  uint64_t get_bytes_max = uint64_t{1} << 30;
  PeersOptions peers = {};
  SpareStockOptions spares = {};
  BatchIoOptions io = {};
};

// How a call to the master behaves when things go slowly or wrong. All calls are idempotent (R14),
// so each is repeated on UNAVAILABLE, and when one attempt took too long.
struct CallPolicy {
  // The master may hold the call until its timeout (waiting for space, for a writer, for holders):
  // one attempt gets all the time there is. Otherwise an attempt gets a third of it.
  bool may_hold = false;
  // The master is told where the caller is: what is put goes there first.
  bool names_host = true;
  BackoffOptions backoff = {};
  // No further attempt when the call has found no master for so long; or masters of which none
  // leads (NOT_LEADER).
  absl::Duration outage_max = absl::InfiniteDuration();
  absl::Duration election_max = absl::InfiniteDuration();
};

// Outlasts a restart of the master and a change of leader, up to the caller's deadline. What is
// noticed late of a new leader is at most the longest pause.
inline constexpr CallPolicy kPatientPolicy = {
    .backoff = {.max = absl::Milliseconds(200), .attempts_max = std::numeric_limits<int>::max()}};
// Gives up while the master is out of reach for longer than a moment: about a second, or as long as
// an attempt takes to notice. Masters that are there elect one that leads within seconds. For
// callers who do not wait for a master, and for calls that nobody needs.
inline constexpr CallPolicy kBriefPolicy = {
    .backoff = {.initial = absl::Milliseconds(20),
                .max = absl::Milliseconds(200),
                .attempts_max = std::numeric_limits<int>::max()},
    .outage_max = absl::Seconds(1),
    .election_max = absl::Seconds(4)};

// Thread-safe. Borrows master, waiter and logger.
class Session {
 public:
  Session(MasterStub& master, transport::Waiter& waiter, const Logger& logger,
          const SessionOptions& options);

  // With the namespace's layout fingerprint, once it is known; before any other use by threads.
  void SetFingerprint(absl::string_view fingerprint);

  const SessionOptions& options() const { return options_; }
  // Of the parts that are written and read: the namespace and its fingerprint.
  const std::string& part_namespace() const { return part_namespace_; }
  const Clock& clock() const { return waiter_.clock(); }
  transport::Waiter& waiter() { return waiter_; }
  SharedRandom& random() { return random_; }
  Counters& counters() { return counters_; }
  const Counters& counters() const { return counters_; }
  Peers& peers() { return peers_; }
  LocationCache& locations() { return locations_; }
  SpareStock& spares() { return spares_; }

  CallContext ContextOf(const CallOptions& call) const;
  // Before anything of a call on so many keys is done, also of one that needs nobody's answer:
  // INVALID_ARGUMENT with BATCH_TOO_LARGE; the context's error when it has ended already.
  absl::Status CheckCall(size_t keys, const CallContext& context) const;
  // Of calls that have changed nothing yet: as the caller wants it.
  const CallPolicy& policy() const {
    return options_.wait_for_master ? kPatientPolicy : kBriefPolicy;
  }

  // Calls the master with the request and a header that this fills in, repeated as `policy` says;
  // the last error when that does not help. FAILED_PRECONDITION/PEER_VERSION when it speaks another
  // version.
  template <typename Request, typename Response>
  absl::StatusOr<Response> Call(absl::StatusOr<Response> (MasterStub::*method)(const Request&,
                                                                               const CallContext&),
                                Request& request, const CallContext& context,
                                const CallPolicy& policy);

 private:
  // All but the remaining time, which is each attempt's own.
  void FillHeader(const CallPolicy& policy, v1::RequestHeader* header);
  CallContext NextAttempt(const CallContext& context, const CallPolicy& policy,
                          v1::RequestHeader* header);
  bool ShouldRepeat(const absl::Status& status, const CallContext& context,
                    const CallPolicy& policy, absl::Time begun) const;
  static absl::Status CheckVersion(const v1::ResponseHeader& header);

  // A master that was restarted without a memory knows the namespace again when a node or a client
  // that had opened it comes: OK when it does now.
  absl::Status Reopen(const CallContext& context, const CallPolicy& policy);

  const SessionOptions options_;
  std::string fingerprint_;
  std::string part_namespace_;
  MasterStub& master_;
  transport::Waiter& waiter_;
  SharedRandom random_;
  Counters counters_;
  Peers peers_;
  LocationCache locations_;  // refers to peers: goes first
  SpareStock spares_;        // so does it
};

template <typename Request, typename Response>
absl::StatusOr<Response> Session::Call(
    absl::StatusOr<Response> (MasterStub::*method)(const Request&, const CallContext&),
    Request& request, const CallContext& context, const CallPolicy& policy) {
  FillHeader(policy, request.mutable_header());
  Backoff backoff(policy.backoff, random_, waiter_);
  const absl::Time begun = clock().Now();
  bool may_reopen = !std::is_same_v<Request, v1::OpenNamespaceRequest> && !fingerprint_.empty();
  while (true) {
    RETURN_IF_ERROR(context.Check(clock()));
    const CallContext attempt = NextAttempt(context, policy, request.mutable_header());
    absl::StatusOr<Response> response = (master_.*method)(request, attempt);
    if (response.ok()) {
      RETURN_IF_ERROR(CheckVersion(response->header()));
      return response;
    }
    if (may_reopen && ReasonOf(response.status()) == ErrorReason::kNamespaceUnknown) {
      may_reopen = false;
      RETURN_IF_ERROR(Reopen(context, policy));
      continue;
    }
    if (!ShouldRepeat(response.status(), context, policy, begun) || !backoff.Pause(context)) {
      return response.status();
    }
  }
}

// Of keys, before anything is sent: INVALID_ARGUMENT with KEY_EMPTY, KEY_TOO_LONG.
absl::Status CheckKey(absl::string_view key);
// The status with the key in its detail.
absl::Status AnnotateKey(const absl::Status& status, absl::string_view key);

// Why the master has no location of a key, as a reader should see it: holders that are away for the
// moment make a miss (NODE_LOST), since nobody can read the object now.
absl::Status MissOf(const absl::Status& status, absl::string_view key);
absl::Status MissOf(const v1::Status& status, absl::string_view key);

// From the cache or, with one call, from the master. NOT_FOUND with the reason of the miss.
absl::StatusOr<LocationPtr> FindOrLocate(Session& session, absl::string_view key,
                                         const CallContext& context);

}  // namespace moonpool::client
