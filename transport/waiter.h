// Waiting for channels: the one place where a data-path call blocks.
#pragma once

#include <poll.h>

#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/call_context.h"
#include "common/clock.h"
#include "common/spin.h"
#include "transport/channel.h"

namespace moonpool::transport {

// Blocks the calling thread until a channel may progress, the context ends, or a bounded while has
// passed. Real: poll(). Simulated: lets virtual time pass. Thread-safe.
class Waiter {
 public:
  virtual ~Waiter() = default;
  virtual void Wait(absl::Span<Channel* const> channels, const CallContext& context) = 0;
  virtual const Clock& clock() const = 0;
};

// Spins for up to `spin` while a single op is outstanding. Thread-safe.
class PollWaiter final : public Waiter {
 public:
  explicit PollWaiter(const Clock& clock, absl::Duration spin = absl::ZeroDuration())
      : clock_(clock), spin_(spin) {}
  void Wait(absl::Span<Channel* const> channels, const CallContext& context) override;
  const Clock& clock() const override { return clock_; }

 private:
  const Clock& clock_;
  Spin spin_;
};

// poll() on `waits` until one is ready, the context ends, or 100 ms have passed. For code that
// waits for descriptors of its own; appends the context's to `waits`.
void PollOnce(std::vector<pollfd>* waits, const CallContext& context, const Clock& clock);

// Drives the channels until nothing is outstanding. When the context ends first, abandons what is
// left with its error (those channels are closed) and returns that error; OK otherwise, also when
// single ops failed.
absl::Status CompleteAll(absl::Span<Channel* const> channels, const CallContext& context,
                         Waiter& waiter);

}  // namespace moonpool::transport
