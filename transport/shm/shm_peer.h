// The memory of one life of a node in this process: mapping, pins, and the socket that keeps the
// pins alive. Shared (shared_ptr) by the channels to that node and the views they gave, because a
// view may outlive both its channel and its transport. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/clock.h"
#include "common/types.h"
#include "transport/channel.h"
#include "transport/shm/handshake.h"
#include "transport/shm/mapping.h"
#include "transport/shm/pin_page.h"
#include "transport/stream/client_stream.h"
#include "transport/stream/connect.h"

namespace moonpool::transport {

class ShmPeer final : public MappedPool, public std::enable_shared_from_this<ShmPeer> {
 public:
  // `trusted_uids` as in ShmClientOptions.
  static absl::StatusOr<std::shared_ptr<ShmPeer>> Connect(const SocketAddress& address,
                                                          const HelloRequest& hello,
                                                          const ConnectDeadline& deadline,
                                                          const Clock& clock,
                                                          absl::Span<const uint32_t> trusted_uids);
  // The same on a socket that is connected already.
  static absl::StatusOr<std::shared_ptr<ShmPeer>> ShakeHands(
      UniqueFd socket, const HelloRequest& hello, const ConnectDeadline& deadline,
      const Clock& clock, absl::Span<const uint32_t> trusted_uids);
  ShmPeer(UniqueFd socket, std::unique_ptr<PinSlots> pins, const Clock& clock);

  // Header and payload; empty when the extent is not in the mapping.
  ConstBytes Readable(const Extent& extent) const;
  MutableBytes Writable(const Extent& extent) override;

  absl::StatusOr<std::unique_ptr<PinnedPart>> OpenView(Generation generation, const Extent& extent);
  void Unpin(uint32_t slot) { pins_->Release(slot); }

  // Looks at the socket. Once false, for ever false.
  bool IsAlive() const;

 private:
  struct Segment {
    SegmentId id;
    Mapping readable;
    Mapping writable;  // empty: not granted
  };

  const Segment* Find(const Extent& extent) const;
  bool WasAliveLately() const;

  const UniqueFd socket_;
  // Outlives the mapped segments: the node's next life takes it that who has let go of the page of
  // pins has let go of the pool.
  const std::unique_ptr<PinSlots> pins_;
  const Clock& clock_;
  std::vector<Segment> segments_;  // constant after Connect
  mutable std::atomic<bool> is_lost_{false};
  mutable std::atomic<int64_t> looked_at_ns_{0};
};

}  // namespace moonpool::transport
