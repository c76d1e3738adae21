// The client's side of the transport: move a batch of parts from and to one peer.
//
//   std::unique_ptr<Channel> channel = ...transport.Connect(peer, context)...;
//   channel->Submit(&read);
//   channel->Submit(&write);
//   CompleteAll({channel.get()}, context, waiter);     // transport/waiter.h
//   read.status, write.status ...
//
// The caller drives the progress, so a blocking call costs no hand-over between threads. A backend
// may have threads that help with large batches; an op that is not done belongs to the channel
// either way, and when nothing is outstanding nothing touches buffers any more.
#pragma once

#include <poll.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/call_context.h"
#include "transport/ops.h"

namespace moonpool::transport {

// Where a node can be reached (moonpool.v1.NodeAddress).
struct PeerAddress {
  std::string name;
  Incarnation incarnation;
  std::string host_id;
  std::string tcp_address;
  std::string shm_path;
  bool operator==(const PeerAddress&) const = default;
};

// Read-only bytes of one sealed part, in the pool itself. They cannot change while it lives and the
// node does: the node gives them to no other owner. When the node dies the bytes stay mapped, but
// its next life may give them away; whoever uses a view past that asks still_pinned() afterwards.
// (A life that takes its pool over from the last one keeps what is pinned there as well. Nobody but
// that life can tell, so still_pinned() does not count on it.) Release on any thread.
class PinnedPart {
 public:
  virtual ~PinnedPart() = default;
  virtual const PartHeader& header() const = 0;
  virtual ConstBytes payload() const = 0;
  // True: nobody can have changed the bytes up to now. False: the node (or the connection that
  // holds the pin) is gone; what was computed from the bytes since is worth nothing. One system
  // call. Thread-safe.
  virtual bool still_pinned() const = 0;
};

// Channels that can hand out views (shared memory). Thread-safe.
class ViewSource {
 public:
  virtual ~ViewSource() = default;
  // No message to the peer. NOT_FOUND/STALE_GENERATION when the generation no longer owns the
  // extent; RESOURCE_EXHAUSTED/LIMIT_REACHED when every pin slot is taken. The checksum is not
  // computed. The returned part outlives the channel if need be.
  virtual absl::StatusOr<std::unique_ptr<PinnedPart>> OpenView(Generation generation,
                                                               const Extent& extent) = 0;
};

// Used by one thread at a time.
class Channel {
 public:
  virtual ~Channel() =
      default;  // unfinished ops are abandoned: their buffers are not touched any more

  virtual absl::string_view backend() const = 0;  // "tcp", "shm", "sim"

  // nullopt: Transport::StartConnect gave it, and it still shakes hands. Progress() does that, and
  // nothing is submitted meanwhile. Then OK, or why there is no connection (the errors of
  // Transport::Connect).
  virtual std::optional<absl::Status> connected() const { return absl::OkStatus(); }

  // Starts an operation. RESOURCE_EXHAUSTED: too much outstanding; make progress and submit again
  // (the op is untouched). UNAVAILABLE: the channel is broken for good; connect again.
  virtual absl::Status Submit(ReadOp* op) = 0;
  virtual absl::Status Submit(WriteOp* op) = 0;

  // Tells the peer that this part was found damaged, so that it looks. A hint, which goes out with
  // the next Progress() and may get lost; a peer that does not know it is not told. Reads that fail
  // for that reason give it by themselves.
  virtual void Doubt(Generation generation, const Extent& extent) = 0;

  // Moves what can be moved without blocking, and marks ops done. Returns true if it did anything.
  virtual bool Progress() = 0;

  // Number of submitted operations that are not done.
  virtual size_t outstanding() const = 0;

  // What to poll() for before the next Progress() can do anything. Appends nothing when Progress
  // never waits for a descriptor.
  virtual void AppendWaits(std::vector<pollfd>* waits) const = 0;

  // Marks every outstanding op done with `status` and closes the channel. Afterwards no buffer of
  // an op is touched.
  virtual void Abandon(const absl::Status& status) = 0;

  // False once the connection is known to be lost. Looks at an idle connection (one system call),
  // so that one the peer has closed meanwhile is found before an op is lost to it.
  virtual bool healthy() const = 0;

  // nullptr where the backend has no views. Borrowed, lives as long as the channel.
  virtual ViewSource* views() = 0;
};

// One backend. Thread-safe.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual absl::string_view name() const = 0;
  // Whether this backend has a path to the peer at all (an address for it, the same host, ...).
  virtual bool Reaches(const PeerAddress& peer) const = 0;
  // Connects and shakes hands within min(context.deadline, the backend's connect timeout).
  // UNAVAILABLE/PEER_UNREACHABLE, FAILED_PRECONDITION/PEER_VERSION or STALE_GENERATION when the
  // peer at the address has another incarnation.
  virtual absl::StatusOr<std::unique_ptr<Channel>> Connect(const PeerAddress& peer,
                                                           const CallContext& context) = 0;
  // Begins to connect, and leaves the handshake to the channel's Progress() (Channel::connected),
  // for as long as the caller likes: so that one peer that does not answer keeps nobody from the
  // others. Backends of the same host may wait here as Connect does.
  virtual absl::StatusOr<std::unique_ptr<Channel>> StartConnect(const PeerAddress& peer,
                                                                const CallContext& context) {
    return Connect(peer, context);
  }
};

}  // namespace moonpool::transport
