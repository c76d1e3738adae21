#include "transport/waiter.h"

#include <time.h>

#include <algorithm>

namespace moonpool::transport {
namespace {

// No single wait is longer: a wake-up that gets lost costs this much and no call.
constexpr absl::Duration kWaitMax = absl::Milliseconds(100);

bool Poll(std::vector<pollfd>& waits, absl::Duration timeout) {
  const timespec wait = absl::ToTimespec(std::max(timeout, absl::ZeroDuration()));
  return ppoll(waits.data(), waits.size(), &wait, nullptr) != 0;  // an error is for the next I/O
}

void AppendCancel(const CallContext& context, std::vector<pollfd>* waits) {
  if (const int fd = context.cancel.fd(); fd >= 0) waits->push_back({fd, POLLIN, 0});
}

}  // namespace

void PollOnce(std::vector<pollfd>* waits, const CallContext& context, const Clock& clock) {
  AppendCancel(context, waits);
  Poll(*waits, std::min(context.Remaining(clock), kWaitMax));
}

void PollWaiter::Wait(absl::Span<Channel* const> channels, const CallContext& context) {
  // Kept between calls so that waiting does not allocate.
  thread_local std::vector<pollfd> waits;
  waits.clear();
  for (const Channel* channel : channels) channel->AppendWaits(&waits);
  if (waits.empty()) return;
  AppendCancel(context, &waits);
  // Of more than one op the next thing to happen is soon there anyway, and the thread that makes it
  // happen should have the processor.
  size_t ops = 0;
  for (const Channel* channel : channels) ops += channel->outstanding();
  const auto look = [] { return Poll(waits, absl::ZeroDuration()); };
  if (ops == 1 && spin_.Try(clock_, context.deadline, look)) return;
  Poll(waits, std::min(context.Remaining(clock_), kWaitMax));
}

absl::Status CompleteAll(absl::Span<Channel* const> channels, const CallContext& context,
                         Waiter& waiter) {
  while (true) {
    bool progressed = false;
    size_t outstanding = 0;
    for (Channel* channel : channels) {
      progressed |= channel->Progress();
      outstanding += channel->outstanding();
    }
    if (outstanding == 0) return absl::OkStatus();
    if (absl::Status ended = context.Check(waiter.clock()); !ended.ok()) {
      for (Channel* channel : channels) {
        if (channel->outstanding() > 0) channel->Abandon(ended);
      }
      return ended;
    }
    if (!progressed) waiter.Wait(channels, context);
  }
}

}  // namespace moonpool::transport
