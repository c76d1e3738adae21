// MembershipService on the wire: one reactor for each node's stream.
#pragma once

#include "common/clock.h"
#include "common/log.h"
#include "common/log_limiter.h"
#include "common/metrics/metrics.h"
#include "master/service/metrics.h"
#include "master/service/shared_handlers.h"
#include "moonpool/v1/membership.grpc.pb.h"

namespace moonpool::master {

class SessionService final : public v1::MembershipService::CallbackService {
 public:
  // All borrowed.
  SessionService(SharedHandlers& handlers, const Clock& clock, metrics::Registry& registry,
                 const Logger& logger);

  grpc::ServerBidiReactor<v1::NodeMessage, v1::MasterMessage>* Session(
      grpc::CallbackServerContext* context) override;

  // What the reactors share.
  SharedHandlers& handlers() { return handlers_; }
  void LogRegistered(absl::string_view name, NodeId node, absl::string_view peer);
  void LogQuarantined(absl::string_view name, uint64_t records);
  void LogEnded(absl::string_view name, absl::string_view peer, const absl::Status& status);
  void RecordEnd(const absl::Status& status, absl::Time started_at);
  const Clock& clock() const { return clock_; }

 private:
  SharedHandlers& handlers_;
  const Clock& clock_;
  RpcMetrics metrics_;
  const Logger& logger_;
  LogLimiter limiter_;  // for all that a peer can trigger
};

}  // namespace moonpool::master
