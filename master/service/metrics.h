// What the master tells Prometheus.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/metrics/metrics.h"
#include "master/core/commands.h"
#include "master/election/leadership.h"
#include "master/handlers/handlers.h"
#include "master/handlers/reigns.h"

namespace moonpool::master {

// One kind of call. Lock-free after the first answer of each code; OK is there from the start.
class RpcMetrics {
 public:
  RpcMetrics(metrics::Registry& registry, absl::string_view rpc);
  void Record(int code, absl::Duration elapsed);  // code: absl and gRPC have the same

 private:
  static constexpr size_t kCodes = 17;
  metrics::Counter& CounterOf(size_t code);

  metrics::Registry& registry_;
  const std::string rpc_;
  metrics::Histogram& seconds_;
  std::array<std::atomic<metrics::Counter*>, kCodes> by_code_ = {};
};

// The core and the handlers count in plain numbers; Publish turns what was added since the last
// time into counters.
class ServiceMetrics {
 public:
  explicit ServiceMetrics(metrics::Registry& registry);

  // One caller at a time. What there is between two reigns is nothing.
  void Publish(const Reigns& reigns, const Leadership& leadership, absl::Time now);

  metrics::Histogram& lock_held;
  struct Role {
    explicit Role(metrics::Registry& registry);
    metrics::Counter& refusals;  // of calls and sessions, since this master did not lead
    metrics::Gauge& term;
    metrics::Gauge& leads;
    metrics::Gauge& reign;
    metrics::Gauge& lease_left;
  } role;

 private:
  void PublishGauges(const StatusResult& status, size_t sessions, size_t waiters, size_t unsaved);
  void PublishCounts(const HandlerCounts& counts);
  void PublishTotals(const Totals& totals);

  metrics::Registry& registry_;
  Reign reign_;           // whose numbers were published last
  HandlerCounts counts_;  // as they were published
  Totals totals_;

  metrics::Counter& keys_hit_;
  metrics::Counter& leases_;
  metrics::Counter& bad_requests_;
  metrics::Counter& registrations_;
  metrics::Counter& registrations_refused_;
  metrics::Counter& sessions_replaced_;
  metrics::Counter& sessions_timed_out_;
  metrics::Counter& records_;
  metrics::Counter& records_quarantined_;
  metrics::Counter& protocol_errors_;
  metrics::Counter& commands_sent_;
  metrics::Counter& commands_dropped_;
  metrics::Counter& grants_;
  metrics::Counter& commits_;
  metrics::Counter& aborts_;
  metrics::Counter& spares_given_;
  metrics::Counter& spares_used_;
  metrics::Counter& spares_refused_;
  metrics::Counter& evictions_;
  metrics::Counter& evicted_bytes_;
  metrics::Counter& removals_;
  metrics::Counter& losses_;
  metrics::Counter& adoptions_;
  metrics::Counter& other_layouts_;
  metrics::Counter& inventories_retaken_;

  metrics::Gauge& objects_;
  metrics::Gauge& used_bytes_;
  metrics::Gauge& granted_bytes_;
  metrics::Gauge& condemned_bytes_;
  metrics::Gauge& leased_bytes_;
  metrics::Gauge& capacity_bytes_;
  metrics::Gauge& open_grants_;
  metrics::Gauge& live_leases_;
  metrics::Gauge& tombstones_;
  metrics::Gauge& nodes_up_;
  metrics::Gauge& nodes_known_;
  metrics::Gauge& sessions_;
  metrics::Gauge& waiters_;

  struct Waits {
    explicit Waits(metrics::Registry& registry);
    metrics::Counter& begun;
    metrics::Counter& expired;
    metrics::Counter& cancelled;
    metrics::Counter& refused;
  } waits_;
  struct Meta {
    explicit Meta(metrics::Registry& registry);
    metrics::Counter& writes;
    metrics::Counter& failures;
    metrics::Gauge& unsaved;
  } meta_;

  struct Copies {
    explicit Copies(metrics::Registry& registry);
    void Publish(const Totals& now, const Totals& before);
    std::array<metrics::Counter*, kCopyEnds> ended;
    metrics::Counter& bytes;
    metrics::Counter& trimmed;
    metrics::Counter& damaged;
    metrics::Gauge& short_objects;
    metrics::Gauge& in_flight;
    metrics::Gauge& waiting;
  } copies_;
  struct Events {
    explicit Events(metrics::Registry& registry);
    void Publish(const HandlerCounts& now, const HandlerCounts& before);
    metrics::Counter& sent;
    std::array<metrics::Counter*, kEventResets> resets;
    metrics::Gauge& watchers;
    metrics::Gauge& last;
    metrics::Gauge& kept;
  } events_;
};

}  // namespace moonpool::master
