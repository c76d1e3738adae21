// MembershipService on the wire: one call for each node's stream.
#pragma once

#include "common/clock.h"
#include "common/log.h"
#include "common/log_limiter.h"
#include "common/metrics/metrics.h"
#include "master/service/call_queues.h"
#include "master/service/metrics.h"
#include "master/service/shared_handlers.h"
#include "moonpool/v1/membership.grpc.pb.h"

namespace moonpool::master {

class SessionService {
 public:
  // All borrowed.
  SessionService(SharedHandlers& handlers, const Clock& clock, metrics::Registry& registry,
                 const Logger& logger);

  grpc::Service* service() { return &wire_; }
  // Takes streams from that queue until it is closed.
  void Serve(CallQueues::Queue& queue);

  // What the calls share.
  v1::MembershipService::AsyncService& wire() { return wire_; }
  SharedHandlers& handlers() { return handlers_; }
  void LogRegistered(absl::string_view name, NodeId node, absl::string_view peer);
  void LogQuarantined(absl::string_view name, uint64_t records);
  void LogEnded(absl::string_view name, absl::string_view peer, const absl::Status& status);
  void RecordEnd(const absl::Status& status, absl::Time started_at);
  const Clock& clock() const { return clock_; }

 private:
  v1::MembershipService::AsyncService wire_;
  SharedHandlers& handlers_;
  const Clock& clock_;
  RpcMetrics metrics_;
  const Logger& logger_;
  LogLimiter limiter_;  // for all that a peer can trigger
};

}  // namespace moonpool::master
