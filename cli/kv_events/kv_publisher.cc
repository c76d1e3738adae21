#include "cli/kv_events/kv_publisher.h"

#include <utility>

#include "cli/kv_events/sequence.h"
#include "common/status_macros.h"

namespace moonpool::cli {

absl::StatusOr<std::unique_ptr<KvPublisher>> KvPublisher::Start(KvPublisherOptions options) {
  auto context = std::make_unique<ZmqContext>();
  ASSIGN_OR_RETURN(ZmqSocket pub, ZmqSocket::Bind(*context, ZmqSocket::Type::kPub, options.endpoint,
                                                  {.sent = options.high_water}));
  ASSIGN_OR_RETURN(ZmqSocket replay,
                   ZmqSocket::Bind(*context, ZmqSocket::Type::kRouter, options.replay_endpoint,
                                   {.sent = options.replay_high_water}));
  return std::unique_ptr<KvPublisher>(
      new KvPublisher(std::move(options), std::move(pub), std::move(replay), std::move(context)));
}

KvPublisher::KvPublisher(KvPublisherOptions options, ZmqSocket pub, ZmqSocket replay,
                         std::unique_ptr<ZmqContext> context)
    : topic_(options.replay.topic),
      context_(std::move(context)),
      pub_(std::move(pub)),
      kept_(options.kept),
      replay_(std::move(options.replay), kept_, std::move(replay)) {}

void KvPublisher::Publish(const std::string& payload) {
  // Kept before it is sent: who finds a gap behind it may ask at once.
  const std::string number = SequenceFrame(kept_.Add(payload));
  pub_.Send({topic_, number, payload});
}

}  // namespace moonpool::cli
