#include "master/service/metrics.h"

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "common/error.h"

namespace moonpool::master {
namespace {

struct ReasonFamily {
  const char* name;
  const char* help;
};
constexpr ReasonFamily kMissed = {"moonpool_master_keys_missed_total",
                                  "Keys that were looked for and not found."};
constexpr ReasonFamily kRefused = {"moonpool_master_puts_refused_total", "Puts that got no grant."};

// What each of them is expected to count: there from the start, so that a rate begins at zero and
// the first one is seen. Any other reason joins when it comes up.
constexpr ErrorReason kMissReasons[] = {ErrorReason::kNeverStored, ErrorReason::kEvicted,
                                        ErrorReason::kExpired,     ErrorReason::kRemoved,
                                        ErrorReason::kNodeLost,    ErrorReason::kBeingWritten};
constexpr ErrorReason kRefusalReasons[] = {ErrorReason::kAlreadyExists, ErrorReason::kBeingWritten,
                                           ErrorReason::kNoSpace,       ErrorReason::kNoNodes,
                                           ErrorReason::kLimitReached,  ErrorReason::kValueTooLarge,
                                           ErrorReason::kDuplicateKey,  ErrorReason::kKeyEmpty,
                                           ErrorReason::kKeyTooLong,    ErrorReason::kBadArgument};

metrics::Counter& CounterOf(metrics::Registry& registry, const ReasonFamily& family,
                            ErrorReason reason) {
  return registry.AddCounter(family.name, family.help,
                             {{"reason", absl::AsciiStrToLower(ReasonName(reason))}});
}

void AddReasons(metrics::Registry& r) {
  for (const ErrorReason reason : kMissReasons) CounterOf(r, kMissed, reason);
  for (const ErrorReason reason : kRefusalReasons) CounterOf(r, kRefused, reason);
}

}  // namespace

RpcMetrics::RpcMetrics(metrics::Registry& registry, absl::string_view rpc)
    : registry_(registry),
      rpc_(rpc),
      seconds_(registry.AddHistogram("moonpool_master_request_seconds",
                                     "Time to answer a call; waiting is part of it.",
                                     metrics::LatencyBuckets(), {{"rpc", rpc_}})) {
  CounterOf(0);
}

void RpcMetrics::Record(int code, absl::Duration elapsed) {
  seconds_.Observe(elapsed);
  CounterOf(code >= 0 && code < static_cast<int>(kCodes) ? static_cast<size_t>(code) : 2)
      .Increment();
}

metrics::Counter& RpcMetrics::CounterOf(size_t code) {
  metrics::Counter* counter = by_code_[code].load(std::memory_order_acquire);
  if (counter == nullptr) {
    const std::string name =
        code == 0 ? "OK" : absl::StatusCodeToString(static_cast<absl::StatusCode>(code));
    counter = &registry_.AddCounter("moonpool_master_requests_total", "Calls that were answered.",
                                    {{"rpc", rpc_}, {"code", name}});
    by_code_[code].store(counter, std::memory_order_release);
  }
  return *counter;
}

ServiceMetrics::ServiceMetrics(metrics::Registry& r)
    : lock_held(r.AddHistogram("moonpool_master_lock_held_seconds",
                               "Time that one call or tick kept the core to itself.",
                               metrics::LatencyBuckets())),
      role(r),
      registry_(r),
      keys_hit_(
          r.AddCounter("moonpool_master_keys_hit_total", "Keys that were looked for and found.")),
      leases_(r.AddCounter("moonpool_master_leases_given_total", "Locations given with a lease.")),
      bad_requests_(r.AddCounter("moonpool_master_bad_requests_total",
                                 "Calls that no client of ours would make.")),
      registrations_(r.AddCounter("moonpool_master_registrations_total", "Nodes that registered.")),
      registrations_refused_(r.AddCounter("moonpool_master_registrations_refused_total",
                                          "Nodes that were not let in.")),
      sessions_replaced_(r.AddCounter("moonpool_master_sessions_replaced_total",
                                      "Node sessions that a newer one of the same node ended.")),
      sessions_timed_out_(r.AddCounter("moonpool_master_sessions_timed_out_total",
                                       "Node sessions that ended in silence.")),
      records_(r.AddCounter("moonpool_master_records_total",
                            "Sealed parts that nodes reported, inventories included.")),
      records_quarantined_(r.AddCounter("moonpool_master_records_quarantined_total",
                                        "Reported parts that cannot be true and were left out.")),
      protocol_errors_(r.AddCounter("moonpool_master_protocol_errors_total",
                                    "Messages of nodes that were out of order.")),
      commands_sent_(r.AddCounter("moonpool_master_commands_sent_total", "Commands to nodes.")),
      commands_dropped_(r.AddCounter("moonpool_master_commands_dropped_total",
                                     "Commands that found no session or no room; repeated later.")),
      grants_(r.AddCounter("moonpool_master_grants_total", "Puts that were granted.")),
      commits_(r.AddCounter("moonpool_master_commits_total", "Puts that were committed.")),
      aborts_(r.AddCounter("moonpool_master_aborts_total", "Grants that were aborted or expired.")),
      spares_given_(r.AddCounter("moonpool_master_spare_grants_given_total",
                                 "Grants that named no key when they were given.")),
      spares_used_(r.AddCounter("moonpool_master_spare_grants_used_total",
                                "Of those: became the grant of a key.")),
      spares_refused_(r.AddCounter("moonpool_master_spare_grants_refused_total",
                                   "Of those: written to, and their key was taken.")),
      evictions_(r.AddCounter("moonpool_master_evictions_total", "Objects evicted to make room.")),
      evicted_bytes_(r.AddCounter("moonpool_master_evicted_bytes_total",
                                  "Bytes of objects evicted to make room.")),
      removals_(r.AddCounter("moonpool_master_removals_total", "Objects removed by request.")),
      losses_(r.AddCounter("moonpool_master_losses_total", "Objects lost with their nodes.")),
      adoptions_(r.AddCounter("moonpool_master_adoptions_total",
                              "Objects learned from nodes and not from a commit.")),
      other_layouts_(r.AddCounter("moonpool_master_parts_of_other_layouts_total",
                                  "Parts at nodes that are not of their namespace's layout.")),
      inventories_retaken_(
          r.AddCounter("moonpool_master_inventories_retaken_total",
                       "Inventories asked for since a node had more to forget than is listed.")),
      objects_(r.AddGauge("moonpool_master_objects", "Objects in the index.")),
      used_bytes_(
          r.AddGauge("moonpool_master_used_bytes", "Bytes in use: live, granted and condemned.")),
      granted_bytes_(r.AddGauge("moonpool_master_granted_bytes", "Bytes under open grants.")),
      condemned_bytes_(
          r.AddGauge("moonpool_master_condemned_bytes", "Bytes that nodes have still to let go.")),
      leased_bytes_(r.AddGauge("moonpool_master_leased_bytes", "Bytes under leases.")),
      capacity_bytes_(
          r.AddGauge("moonpool_master_capacity_bytes", "Bytes of all nodes that are up.")),
      open_grants_(r.AddGauge("moonpool_master_open_grants", "Grants that are not committed yet.")),
      live_leases_(r.AddGauge("moonpool_master_live_leases", "Leases that run.")),
      tombstones_(r.AddGauge("moonpool_master_tombstones", "Removals that are not confirmed yet.")),
      nodes_up_(r.AddGauge("moonpool_master_nodes_up", "Nodes with a session.")),
      nodes_known_(r.AddGauge("moonpool_master_nodes_known", "Nodes that are up or may return.")),
      sessions_(r.AddGauge("moonpool_master_sessions", "Streams of nodes, registered or not.")),
      waiters_(r.AddGauge("moonpool_master_waiters", "Calls that wait now.")),
      waits_(r),
      meta_(r),
      copies_(r),
      events_(r) {
  AddReasons(r);
}

ServiceMetrics::Role::Role(metrics::Registry& r)
    : refusals(r.AddCounter("moonpool_master_not_leader_total",
                            "Calls and node sessions that were told NOT_LEADER.")),
      term(r.AddGauge("moonpool_master_term", "Number of this leadership; 0 when there is none.")),
      leads(r.AddGauge("moonpool_master_leads",
                       "1: this master answers. 0: it does not lead, has no lease, or loads.")),
      reign(
          r.AddGauge("moonpool_master_reign",
                     "Number of this reign in etcd; 1 for a master that is alone, 0 when there is "
                     "none.")),
      lease_left(r.AddGauge("moonpool_master_lease_left_seconds",
                            "How long this master would still lead if etcd went away now; 0 when "
                            "it does not lead, or is alone.")) {}

ServiceMetrics::Waits::Waits(metrics::Registry& r)
    : begun(r.AddCounter("moonpool_master_waits_total",
                         "Calls that waited for space, a writer or confirmation.")),
      expired(
          r.AddCounter("moonpool_master_waits_expired_total", "Waiting calls whose time ran out.")),
      cancelled(r.AddCounter("moonpool_master_waits_cancelled_total",
                             "Waiting calls whose caller has gone.")),
      refused(r.AddCounter("moonpool_master_waits_refused_total",
                           "Calls that could not wait since too many others did.")) {}

ServiceMetrics::Meta::Meta(metrics::Registry& r)
    : writes(r.AddCounter("moonpool_master_meta_writes_total", "Batches for the meta store.")),
      failures(r.AddCounter("moonpool_master_meta_failures_total",
                            "Batches that the meta store did not take; repeated later.")),
      unsaved(r.AddGauge("moonpool_master_unsaved_changes",
                         "Changes that the meta store has not taken yet.")) {}

ServiceMetrics::Copies::Copies(metrics::Registry& r)
    : bytes(r.AddCounter("moonpool_master_copied_bytes_total",
                         "Bytes of replicas that were made by copies between nodes.")),
      trimmed(r.AddCounter("moonpool_master_replicas_trimmed_total",
                           "Replicas dropped that were more than an object shall have.")),
      damaged(r.AddCounter("moonpool_master_parts_damaged_total",
                           "Parts that nodes have found damaged and forgotten.")),
      short_objects(r.AddGauge("moonpool_master_short_objects",
                               "Objects with fewer replicas than their writers asked for.")),
      in_flight(r.AddGauge("moonpool_master_copies_in_flight",
                           "Objects of which another replica is being made.")),
      waiting(r.AddGauge("moonpool_master_copies_waiting",
                         "Objects whose replicas are to be looked at.")) {
  for (size_t i = 0; i < kCopyEnds; ++i) {
    ended[i] =
        &r.AddCounter("moonpool_master_copies_total", "Copies between nodes that have ended.",
                      {{"end", std::string(kCopyEndNames[i])}});
  }
}

void ServiceMetrics::Copies::Publish(const Totals& now, const Totals& before) {
  for (size_t i = 0; i < kCopyEnds; ++i) {
    ended[i]->Increment(now.copies_ended[i] - before.copies_ended[i]);
  }
  bytes.Increment(now.copied_bytes - before.copied_bytes);
  trimmed.Increment(now.replicas_trimmed - before.replicas_trimmed);
  damaged.Increment(now.parts_damaged - before.parts_damaged);
}

ServiceMetrics::Events::Events(metrics::Registry& r)
    : sent(r.AddCounter("moonpool_master_events_sent_total",
                        "Events that were sent to streams, snapshots included.")),
      watchers(r.AddGauge("moonpool_master_event_streams", "Streams of events that are open.")),
      last(
          r.AddGauge("moonpool_master_event_sequence",
                     "Number of the last event of this reign; one per object that comes or goes.")),
      kept(
          r.AddGauge("moonpool_master_events_kept", "Events that a stream may still go on from.")) {
  for (size_t i = 0; i < kEventResets; ++i) {
    resets[i] = &r.AddCounter("moonpool_master_event_resets_total",
                              "Streams that began with a snapshot, or anew with one.",
                              {{"reason", std::string(kEventResetNames[i])}});
  }
}

void ServiceMetrics::Events::Publish(const HandlerCounts& now, const HandlerCounts& before) {
  sent.Increment(now.events_sent - before.events_sent);
  for (size_t i = 0; i < kEventResets; ++i) {
    resets[i]->Increment(now.event_resets[i] - before.event_resets[i]);
  }
}

void ServiceMetrics::Publish(const Reigns& reigns, const Leadership& leadership, absl::Time now) {
  const Reign reign = leadership.ReignAt(now);
  const ReignState* const present = reigns.present();
  const absl::Time deadline = leadership.deadline();
  const bool has_end = reign != Reign{} && reign != kReignAlone;
  role.lease_left.Set(has_end ? absl::ToDoubleSeconds(deadline - now) : 0);
  role.leads.Set(present != nullptr && present->reign == reign ? 1 : 0);
  role.reign.Set(present == nullptr ? 0 : static_cast<double>(present->reign.value));
  const EventLog* const log = present == nullptr ? nullptr : &present->core->events();
  events_.watchers.Set(present == nullptr ? 0
                                          : static_cast<double>(present->handlers.watcher_count()));
  events_.last.Set(log == nullptr ? 0 : static_cast<double>(log->last().sequence));
  events_.kept.Set(log == nullptr ? 0 : static_cast<double>(log->size()));
  if (present == nullptr) return PublishGauges(StatusResult{}, 0, 0, 0);
  if (present->reign != std::exchange(reign_, present->reign)) {
    counts_ = {};
    totals_ = {};
  }
  const Handlers& handlers = present->handlers;
  const StatusResult status = present->core->GetStatus(now);
  PublishCounts(handlers.counts());
  PublishTotals(status.totals);
  PublishGauges(status, handlers.session_count(), handlers.waiter_count(),
                handlers.unsaved_count());
}

void ServiceMetrics::PublishGauges(const StatusResult& status, size_t sessions, size_t waiters,
                                   size_t unsaved) {
  objects_.Set(static_cast<double>(status.objects));
  used_bytes_.Set(static_cast<double>(status.used_bytes));
  granted_bytes_.Set(static_cast<double>(status.granted_bytes));
  condemned_bytes_.Set(static_cast<double>(status.condemned_bytes));
  leased_bytes_.Set(static_cast<double>(status.leased_bytes));
  capacity_bytes_.Set(static_cast<double>(status.capacity_bytes));
  open_grants_.Set(static_cast<double>(status.open_grants));
  live_leases_.Set(static_cast<double>(status.live_leases));
  tombstones_.Set(static_cast<double>(status.tombstones));
  nodes_up_.Set(status.nodes_up);
  nodes_known_.Set(status.nodes_known);
  sessions_.Set(static_cast<double>(sessions));
  waiters_.Set(static_cast<double>(waiters));
  copies_.short_objects.Set(static_cast<double>(status.short_objects));
  copies_.in_flight.Set(static_cast<double>(status.copies_in_flight));
  copies_.waiting.Set(static_cast<double>(status.copies_waiting));
  meta_.unsaved.Set(static_cast<double>(unsaved));
  role.term.Set(status.term.value);
}

void ServiceMetrics::PublishCounts(const HandlerCounts& now) {
  const HandlerCounts& before = counts_;
  keys_hit_.Increment(now.hits - before.hits);
  leases_.Increment(now.leases - before.leases);
  bad_requests_.Increment(now.bad_requests - before.bad_requests);
  waits_.begun.Increment(now.waits - before.waits);
  waits_.expired.Increment(now.waits_expired - before.waits_expired);
  waits_.cancelled.Increment(now.waits_cancelled - before.waits_cancelled);
  waits_.refused.Increment(now.waits_refused - before.waits_refused);
  registrations_.Increment(now.registrations - before.registrations);
  registrations_refused_.Increment(now.registrations_refused - before.registrations_refused);
  sessions_replaced_.Increment(now.sessions_replaced - before.sessions_replaced);
  sessions_timed_out_.Increment(now.sessions_timed_out - before.sessions_timed_out);
  records_.Increment(now.records - before.records);
  records_quarantined_.Increment(now.records_quarantined - before.records_quarantined);
  protocol_errors_.Increment(now.protocol_errors - before.protocol_errors);
  commands_sent_.Increment(now.commands_sent - before.commands_sent);
  commands_dropped_.Increment(now.commands_dropped - before.commands_dropped);
  meta_.writes.Increment(now.meta_writes - before.meta_writes);
  meta_.failures.Increment(now.meta_failures - before.meta_failures);
  events_.Publish(now, before);
  for (size_t i = 0; i < ReasonCounts::kReasons; ++i) {
    const ErrorReason reason = ReasonFromNumber(static_cast<int>(i));
    if (const uint64_t added = now.misses[i] - before.misses[i]; added > 0) {
      CounterOf(registry_, kMissed, reason).Increment(added);
    }
    if (const uint64_t added = now.refused[i] - before.refused[i]; added > 0) {
      CounterOf(registry_, kRefused, reason).Increment(added);
    }
  }
  counts_ = now;
}

void ServiceMetrics::PublishTotals(const Totals& now) {
  grants_.Increment(now.puts_started - totals_.puts_started);
  commits_.Increment(now.puts_committed - totals_.puts_committed);
  aborts_.Increment(now.puts_aborted - totals_.puts_aborted);
  spares_given_.Increment(now.spares_given - totals_.spares_given);
  spares_used_.Increment(now.spares_used - totals_.spares_used);
  spares_refused_.Increment(now.spares_refused - totals_.spares_refused);
  evictions_.Increment(now.evicted - totals_.evicted);
  evicted_bytes_.Increment(now.evicted_bytes - totals_.evicted_bytes);
  removals_.Increment(now.removed - totals_.removed);
  losses_.Increment(now.lost - totals_.lost);
  adoptions_.Increment(now.adopted - totals_.adopted);
  other_layouts_.Increment(now.other_layouts - totals_.other_layouts);
  inventories_retaken_.Increment(now.inventories_retaken - totals_.inventories_retaken);
  copies_.Publish(now, totals_);
  totals_ = now;
}

}  // namespace moonpool::master
