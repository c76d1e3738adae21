// One peer of a stream server: a state machine on a non-blocking socket.
//
//   handshake -> serving (frames, and the payload of a WRITE in between) -> closing
//
// Runs on one io thread. A turn moves a bounded number of bytes, then others have theirs.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "transport/frame.h"
#include "transport/stream/io_counters.h"
#include "transport/stream/limits.h"
#include "transport/stream/output_queue.h"
#include "transport/stream/socket.h"
#include "transport/stream/stream_backend.h"
#include "transport/target.h"

namespace moonpool::transport {

// What the connections of one io thread share. Borrowed.
struct ConnectionScope {
  Target& target;
  StreamBackend& backend;
  const StreamServerLimits& limits;
  const Clock& clock;
  IoCounters& counters;
  MutableBytes scratch;  // for bytes that are read to be thrown away
};

class ServerConnection {
 public:
  // What the connection needs before its next turn.
  enum class Next {
    kWait,    // the socket: wanted_events()
    kTurn,    // nothing: it only has to let others go first
    kClosed,  // nothing any more; destroy it
  };

  ServerConnection(UniqueFd fd, ConnectionScope scope);
  ~ServerConnection();
  ServerConnection(const ServerConnection&) = delete;
  ServerConnection& operator=(const ServerConnection&) = delete;

  // Tells the peer why (as far as it listens) and serves nothing.
  void Refuse(const absl::Status& reason);

  Next TakeTurn();

  int fd() const { return fd_.get(); }
  uint32_t wanted_events() const;  // of epoll
  // Overdue in its handshake, stalled, or idle for too long; never while it holds a mapped claim.
  // Counts it.
  bool IsOverdue(absl::Time now);

 private:
  enum class State { kHandshake, kFrames, kPayload, kDiscard, kClosing };
  enum class Step { kDone, kBlocked, kFailed };

  struct ExtentKey {
    Generation generation;
    Extent extent;
    bool operator==(const ExtentKey&) const = default;
    template <typename H>
    friend H AbslHashValue(H h, const ExtentKey& key) {
      return H::combine(std::move(h), key.generation, key.extent.segment, key.extent.offset);
    }
  };
  struct HeldClaim {
    std::shared_ptr<WriteClaim> claim;
    WriterKind kind;
  };

  struct Moved {
    Step step;
    size_t bytes;
  };

  // Input (server_connection.cc).
  // Nothing is taken up before some, or all, of the output is sent.
  bool must_send_first() const;
  Step StepOnce();
  Step StepFrame();
  Step StepDiscard();
  Step FillInput();
  Step OnBadFrame(const absl::Status& error);
  Moved ReceiveInto(absl::Span<const iovec> vectors, size_t room);
  ConstBytes input() const;
  void ConsumeInput(size_t bytes);
  void MakeInputRoom();

  // Requests (server_requests.cc).
  Step Serve(const FrameHeader& header, const RequestBody& body);
  Step OnHello(uint64_t request_id, const HelloRequest& hello);
  void OnRead(const FrameHeader& header, const ExtentRequest& request);
  void ConfirmRead();
  void OnWrite(const FrameHeader& header, const ExtentRequest& request);
  void OnClaim(uint64_t request_id, const ExtentRequest& request);
  void OnSeal(uint64_t request_id, const SealRecord& record);
  void OnRelease(uint64_t request_id, const ExtentRequest& request);
  void OnDoubt(const ExtentRequest& request);
  void HoldClaim(const ExtentKey& key, std::shared_ptr<WriteClaim> claim, WriterKind kind);
  void DropClaim(const ExtentKey& key);
  absl::StatusOr<std::shared_ptr<WriteClaim>> ClaimExtent(const ExtentRequest& request,
                                                          WriterKind kind);
  void Answer(FrameType request, uint64_t request_id, const absl::Status& status);

  // The payload of a WRITE (server_requests.cc).
  Step StepPayload();
  void FinishPayload(const absl::Status& status);

  void CloseAfterOutput();

  struct SentPart {
    uint64_t request_id;
    ExtentRequest read;
  };

  const ConnectionScope scope_;
  UniqueFd fd_;
  State state_ = State::kHandshake;
  std::unique_ptr<PeerSession> session_;
  OutputQueue output_;
  // The part is in the output. Once it is sent, the peer is told whose bytes they were.
  std::optional<SentPart> unconfirmed_;
  absl::Time opened_at_;
  absl::Time moved_at_;  // when a byte was last moved

  // Received and not yet taken up; allocated with the first byte.
  std::unique_ptr<std::byte[]> input_;
  size_t input_begin_ = 0;
  size_t input_end_ = 0;
  uint64_t discard_bytes_ = 0;
  bool socket_is_drained_ = false;  // a receive of this turn came back short
  bool is_write_shut_ = false;

  // The WRITE whose payload is under way.
  struct {
    FrameHeader header;
    ExtentKey key;
    std::shared_ptr<WriteClaim> claim;
    uint64_t received = 0;
  } incoming_;
  // Claimed or written, and not sealed: given up when the connection closes.
  absl::flat_hash_map<ExtentKey, HeldClaim> claims_;
  size_t mapped_claims_ = 0;
};

}  // namespace moonpool::transport
