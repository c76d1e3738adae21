#include "transport/shm/shm_peer.h"

#include <array>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/error.h"
#include "common/status_macros.h"
#include "transport/part_header.h"
#include "transport/wire_bytes.h"

namespace moonpool::transport {
namespace {

// A view is given when the connection was seen alive no longer ago than this: looking costs a
// system call, and a node that was killed needs far longer until its next life gives bytes away.
// Where that life keeps the pool it also reads the pins before it gives any: a view that is taken
// after the node has died is seen, as one that was taken before.
constexpr absl::Duration kAliveFor = absl::Milliseconds(1);

absl::Status NotThere(Generation generation) {
  return MakeError(absl::StatusCode::kNotFound, ErrorReason::kStaleGeneration,
                   absl::StrCat("generation ", ToString(generation), " does not own the extent"),
                   {.hint = "locate the key again"});
}

class ShmView final : public PinnedPart {
 public:
  ShmView(std::shared_ptr<ShmPeer> peer, uint32_t slot, const PartHeader& header,
          ConstBytes payload)
      : peer_(std::move(peer)), slot_(slot), header_(header), payload_(payload) {}
  ~ShmView() override { peer_->Unpin(slot_); }

  const PartHeader& header() const override { return header_; }
  ConstBytes payload() const override { return payload_; }
  bool still_pinned() const override {
    // What the caller has read was loaded before the connection is looked at.
    std::atomic_thread_fence(std::memory_order_acquire);
    return peer_->IsAlive();
  }

 private:
  const std::shared_ptr<ShmPeer> peer_;
  const uint32_t slot_;
  const PartHeader header_;
  const ConstBytes payload_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<ShmPeer>> ShmPeer::Connect(const SocketAddress& address,
                                                          const HelloRequest& hello,
                                                          const ConnectDeadline& deadline,
                                                          const Clock& clock,
                                                          absl::Span<const uint32_t> trusted_uids) {
  ASSIGN_OR_RETURN(UniqueFd fd, NewStreamSocket(AF_UNIX));
  RETURN_IF_ERROR(ConnectUnix(fd.get(), address, deadline));
  return ShakeHands(std::move(fd), hello, deadline, clock, trusted_uids);
}

absl::StatusOr<std::shared_ptr<ShmPeer>> ShmPeer::ShakeHands(
    UniqueFd socket, const HelloRequest& hello, const ConnectDeadline& deadline, const Clock& clock,
    absl::Span<const uint32_t> trusted_uids) {
  ASSIGN_OR_RETURN(const ReceivedMemory memory,
                   ReceiveMemory(socket.get(), hello, deadline, clock));
  const FileTrust trust{.giver = PeerUser(socket.get()), .trusted_uids = trusted_uids};
  ASSIGN_OR_RETURN(auto pins, PinSlots::Map(memory.pins.get(), memory.answer.pin_slots, trust));
  auto peer = std::make_shared<ShmPeer>(std::move(socket), std::move(pins), clock);
  for (size_t i = 0; i < memory.answer.segments.size(); ++i) {
    const MappedSegment& segment = memory.answer.segments[i];
    Segment mapped{.id = segment.id, .readable = {}, .writable = {}};
    ASSIGN_OR_RETURN(mapped.readable, Mapping::Map(memory.read_only[i].get(), segment.bytes,
                                                   /*writable=*/false, trust));
    if (!memory.writable.empty()) {
      ASSIGN_OR_RETURN(mapped.writable, Mapping::Map(memory.writable[i].get(), segment.bytes,
                                                     /*writable=*/true, trust));
    }
    peer->segments_.push_back(std::move(mapped));
  }
  return peer;
}

ShmPeer::ShmPeer(UniqueFd socket, std::unique_ptr<PinSlots> pins, const Clock& clock)
    : socket_(std::move(socket)), pins_(std::move(pins)), clock_(clock) {}

const ShmPeer::Segment* ShmPeer::Find(const Extent& extent) const {
  for (const Segment& segment : segments_) {
    const uint64_t bytes = segment.readable.bytes().size();
    if (segment.id != extent.segment) continue;
    const bool is_inside = extent.length >= kPartHeaderBytes && extent.length <= bytes &&
                           extent.offset <= bytes - extent.length && extent.offset % 8 == 0;
    return is_inside ? &segment : nullptr;
  }
  return nullptr;
}

ConstBytes ShmPeer::Readable(const Extent& extent) const {
  const Segment* segment = Find(extent);
  if (segment == nullptr) return {};
  segment->readable.Touch(extent.offset, extent.length);
  return segment->readable.bytes().subspan(extent.offset, extent.length);
}

MutableBytes ShmPeer::Writable(const Extent& extent) {
  const Segment* segment = Find(extent);
  if (segment == nullptr || segment->writable.bytes().empty()) return {};
  segment->writable.Touch(extent.offset, extent.length);
  return segment->writable.bytes().subspan(extent.offset, extent.length);
}

absl::StatusOr<std::unique_ptr<PinnedPart>> ShmPeer::OpenView(Generation generation,
                                                              const Extent& extent) {
  if (!WasAliveLately()) {
    return MakeError(absl::StatusCode::kUnavailable, ErrorReason::kPeerUnreachable,
                     "the node has closed the connection that holds the pins",
                     {.hint = "connect again"});
  }
  const ConstBytes part = Readable(extent);
  if (generation == Generation{} || part.empty() || LoadPartGeneration(part.data()) != generation) {
    return NotThere(generation);
  }
  ASSIGN_OR_RETURN(const uint32_t slot, pins_->Acquire(generation));
  absl::StatusOr<PartHeader> header = NotThere(generation);
  if (LoadPartGeneration(part.data()) == generation) {
    // Pinned from here on. A claim that comes now invalidates the header for a moment, finds the
    // pin, and puts it back: the generation is not looked at again.
    std::array<std::byte, kPartHeaderBytes> copy;
    std::memcpy(copy.data(), part.data(), copy.size());
    StoreAs<uint64_t>(copy.data() + kGenerationAt, generation.value);
    header = CheckPartHeader(generation, extent, copy);
  }
  if (!header.ok()) {
    pins_->Release(slot);
    return header.status();
  }
  return std::make_unique<ShmView>(shared_from_this(), slot, *header,
                                   part.subspan(kPartHeaderBytes));
}

bool ShmPeer::IsAlive() const {
  if (is_lost_.load(std::memory_order_relaxed)) return false;
  if (!pins_->is_closed() && IsQuiet(socket_.get())) return true;
  is_lost_.store(true, std::memory_order_relaxed);
  return false;
}

bool ShmPeer::WasAliveLately() const {
  if (pins_->is_closed() || is_lost_.load(std::memory_order_relaxed)) return false;
  const int64_t now_ns = absl::ToUnixNanos(clock_.Now());
  if (now_ns - looked_at_ns_.load(std::memory_order_relaxed) <
      absl::ToInt64Nanoseconds(kAliveFor)) {
    return true;
  }
  looked_at_ns_.store(now_ns, std::memory_order_relaxed);
  return IsAlive();
}

}  // namespace moonpool::transport
