// Connections to the nodes that parts are copied from, kept for the next part.
#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "common/call_context.h"
#include "transport/channel.h"

namespace moonpool::storage_node {

// Used by one thread at a time. Borrows the transports, which are tried in order.
class SourceChannels {
 public:
  struct Opened {
    transport::Channel* channel = nullptr;  // good until the next Open or Close
    bool is_new = false;
  };

  explicit SourceChannels(std::vector<transport::Transport*> transports, size_t kept_max = 8)
      : transports_(std::move(transports)), kept_max_(kept_max) {}

  // One that is there and looks healthy, or a new one. UNAVAILABLE/PEER_UNREACHABLE;
  // NOT_FOUND/STALE_GENERATION when another incarnation is at the address, so the part is gone;
  // PEER_VERSION; the context's end.
  absl::StatusOr<Opened> Open(const transport::PeerAddress& peer, const CallContext& context);
  void Close(const transport::PeerAddress& peer);

 private:
  struct Kept {
    transport::PeerAddress peer;
    std::unique_ptr<transport::Channel> channel;
  };

  const std::vector<transport::Transport*> transports_;
  const size_t kept_max_;
  std::list<Kept> kept_;  // the one used last is the first
};

}  // namespace moonpool::storage_node
