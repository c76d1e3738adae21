// How the real client waits: for sockets, and for time to pass.
#pragma once

#include <poll.h>

#include <vector>

#include "transport/waiter.h"

namespace moonpool::client {

// Thread-safe. A PollWaiter returns at once when there is nothing to poll; pauses between attempts
// wait for no channel, and sleep (a cancellation ends them).
class ClientWaiter final : public transport::Waiter {
 public:
  explicit ClientWaiter(const Clock& clock) : channels_(clock, kSpin) {}

  void Wait(absl::Span<transport::Channel* const> channels, const CallContext& context) override {
    if (!channels.empty()) return channels_.Wait(channels, context);
    std::vector<pollfd> none;
    transport::PollOnce(&none, context, clock());
  }
  const Clock& clock() const override { return channels_.clock(); }

 private:
  // A node that receives 1 MiB over TCP is done about 100 us after its client has sent it.
  static constexpr absl::Duration kSpin = absl::Microseconds(150);

  transport::PollWaiter channels_;
};

}  // namespace moonpool::client
