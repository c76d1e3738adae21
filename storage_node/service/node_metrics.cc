#include "storage_node/service/node_metrics.h"

namespace moonpool::storage_node {
namespace {

// A counter that follows one that is kept elsewhere and only grows.
void Follow(uint64_t now, metrics::Counter& counter) {
  const uint64_t before = counter.value();
  if (now > before) counter.Increment(now - before);
}

}  // namespace

PoolMetrics::PoolMetrics(metrics::Registry& registry)
    : capacity_bytes_(
          registry.AddGauge("moonpool_node_capacity_bytes", "Bytes of the node's segments.")),
      sealed_parts_(registry.AddGauge("moonpool_node_sealed_parts", "Parts that can be read.")),
      sealed_bytes_(
          registry.AddGauge("moonpool_node_sealed_bytes", "Bytes of the parts that can be read.")),
      writing_parts_(registry.AddGauge("moonpool_node_writing_parts",
                                       "Parts claimed and not sealed, given up ones included.")),
      pinned_parts_(registry.AddGauge("moonpool_node_pinned_parts",
                                      "Freed parts whose bytes are still in use.")),
      live_claims_(registry.AddGauge("moonpool_node_live_claims", "Claims that writers hold.")),
      superseded_parts_(registry.AddCounter("moonpool_node_superseded_parts_total",
                                            "Sealed parts that gave way to a newer owner.")) {}

void PoolMetrics::Update(const ExtentIndex& index) {
  uint64_t capacity_bytes = 0;
  SegmentStats sum;
  for (size_t i = 0; i < index.segment_count(); ++i) {
    const SegmentStats stats = index.stats(i);
    capacity_bytes += index.segment(i).capacity_bytes;
    sum.sealed_parts += stats.sealed_parts;
    sum.sealed_bytes += stats.sealed_bytes;
    sum.writing_parts += stats.writing_parts;
    sum.pinned_parts += stats.pinned_parts;
    sum.live_claims += stats.live_claims;
    sum.superseded_parts += stats.superseded_parts;
  }
  capacity_bytes_.Set(static_cast<double>(capacity_bytes));
  sealed_parts_.Set(static_cast<double>(sum.sealed_parts));
  sealed_bytes_.Set(static_cast<double>(sum.sealed_bytes));
  writing_parts_.Set(static_cast<double>(sum.writing_parts));
  pinned_parts_.Set(static_cast<double>(sum.pinned_parts));
  live_claims_.Set(static_cast<double>(sum.live_claims));
  Follow(sum.superseded_parts, superseded_parts_);
}

ServerMetrics::ServerMetrics(metrics::Registry& registry, absl::string_view backend)
    : connections_(registry.AddGauge("moonpool_node_connections", "Open data connections.",
                                     {{"backend", std::string(backend)}})),
      connections_total_(registry.AddCounter("moonpool_node_connections_total",
                                             "Data connections served.",
                                             {{"backend", std::string(backend)}})),
      connections_refused_(registry.AddCounter("moonpool_node_connections_refused_total",
                                               "Data connections over the limit.",
                                               {{"backend", std::string(backend)}})),
      handshakes_refused_(
          registry.AddCounter("moonpool_node_handshakes_refused_total",
                              "Peers of another version, or that looked for another incarnation.",
                              {{"backend", std::string(backend)}})),
      timeouts_(registry.AddCounter("moonpool_node_timeouts_total",
                                    "Data connections closed for silence or a stall.",
                                    {{"backend", std::string(backend)}})),
      bad_frames_(registry.AddCounter("moonpool_node_bad_frames_total",
                                      "Data connections closed for bytes that are no frame.",
                                      {{"backend", std::string(backend)}})),
      received_bytes_(registry.AddCounter("moonpool_node_received_bytes_total",
                                          "Bytes received from clients.",
                                          {{"backend", std::string(backend)}})),
      sent_bytes_(registry.AddCounter("moonpool_node_sent_bytes_total", "Bytes sent to clients.",
                                      {{"backend", std::string(backend)}})) {}

void ServerMetrics::Update(const transport::ServerCounters& now) {
  connections_.Set(static_cast<double>(now.connections_open));
  Follow(now.connections_total, connections_total_);
  Follow(now.connections_refused_total, connections_refused_);
  Follow(now.handshakes_refused_total, handshakes_refused_);
  Follow(now.timeouts_total, timeouts_);
  Follow(now.bad_frames_total, bad_frames_);
  Follow(now.received_bytes_total, received_bytes_);
  Follow(now.sent_bytes_total, sent_bytes_);
}

}  // namespace moonpool::storage_node
