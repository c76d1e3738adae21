// EventService on the wire: one reactor for each stream of events.
#pragma once

#include "common/clock.h"
#include "common/metrics/metrics.h"
#include "master/service/metrics.h"
#include "master/service/unary_reactor.h"
#include "moonpool/v1/events.grpc.pb.h"

namespace moonpool::master {

class WatchService final : public v1::EventService::CallbackService {
 public:
  WatchService(const ServiceContext& context, metrics::Registry& registry)
      : context_(context), metrics_(registry, "Watch") {}

  grpc::ServerWriteReactor<v1::EventBatch>* Watch(grpc::CallbackServerContext* context,
                                                  const v1::WatchRequest* request) override;

  // What the reactors share.
  SharedHandlers& handlers() { return context_.handlers; }
  const Clock& clock() const { return context_.clock; }
  void RecordEnd(const absl::Status& status, absl::Time started_at);

 private:
  const ServiceContext context_;
  RpcMetrics metrics_;
};

}  // namespace moonpool::master
