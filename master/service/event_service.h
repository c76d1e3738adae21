// EventService on the wire: one call for each stream of events.
#pragma once

#include "common/clock.h"
#include "common/metrics/metrics.h"
#include "master/service/metrics.h"
#include "master/service/unary_call.h"
#include "moonpool/v1/events.grpc.pb.h"

namespace moonpool::master {

class WatchService {
 public:
  WatchService(const ServiceContext& context, metrics::Registry& registry)
      : context_(context), metrics_(registry, "Watch") {}

  grpc::Service* service() { return &wire_; }
  // Takes streams from that queue until it is closed.
  void Serve(CallQueues::Queue& queue);

  // What the calls share.
  v1::EventService::AsyncService& wire() { return wire_; }
  SharedHandlers& handlers() { return context_.handlers; }
  const Clock& clock() const { return context_.clock; }
  void RecordEnd(const absl::Status& status, absl::Time started_at);

 private:
  v1::EventService::AsyncService wire_;
  const ServiceContext context_;
  RpcMetrics metrics_;
};

}  // namespace moonpool::master
