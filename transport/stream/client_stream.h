// One connection of a client: a pipeline of requests, driven by the caller.
//
// Requests are sent and answered in the order in which they were added, so the pipeline is a ring:
// added at the tail, sent from the middle, answered at the head. The payload of a READ is received
// straight into the op's buffers, that of a WRITE is sent straight from them; both are hashed chunk
// by chunk while the chunk is in cache.
//
// Used by one thread at a time. Nothing blocks. After Fail or destruction no op is touched.
#pragma once

#include <poll.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "common/checksum.h"
#include "transport/frame.h"
#include "transport/ops.h"
#include "transport/span_cursor.h"
#include "transport/stream/output_queue.h"
#include "transport/stream/socket.h"

namespace moonpool::transport {

// Writable memory of the peer's pool. A stream that has it claims extents and copies into them
// instead of sending the payload.
class MappedPool {
 public:
  virtual ~MappedPool() = default;
  // Header and payload of the extent; empty when it is not in the mapping.
  virtual MutableBytes Writable(const Extent& extent) = 0;
};

class ClientStream {
 public:
  struct Limits {
    size_t ops_max = 1024;
    size_t bytes_max = 256u << 20;
    // Received by one Progress before it looks for what to send; one receive goes beyond.
    uint64_t progress_bytes = 4u << 20;
  };

  // `fd` is connected or about to be; HELLO goes out first. `mapped` may be nullptr; borrowed, used
  // only when the peer's answer grants it.
  ClientStream(UniqueFd fd, const HelloRequest& hello, Limits limits, MappedPool* mapped);
  ~ClientStream();
  ClientStream(const ClientStream&) = delete;
  ClientStream& operator=(const ClientStream&) = delete;

  // RESOURCE_EXHAUSTED/LIMIT_REACHED: too much is outstanding. The ops are valid (ops.h). With a
  // mapped pool, writes are added once is_ready().
  absl::Status Add(ReadOp* op);
  absl::Status Add(WriteOp* op);

  // Goes out with the next Progress(), and is not answered. Dropped where there are many, and where
  // the peer does not know it.
  void Doubt(Generation generation, const Extent& extent);
  bool has_doubts() const { return !doubts_.empty(); }

  // Moves what can be moved without blocking, up to a bound. True: it did something.
  bool Progress();

  bool is_ready() const { return is_ready_; }  // HELLO was answered
  const absl::Status& failure() const { return failure_; }
  size_t outstanding() const { return outstanding_; }
  uint64_t outstanding_bytes() const { return outstanding_bytes_; }
  // Appends nothing when there is nothing to wait for.
  void AppendWaits(std::vector<pollfd>* waits) const;
  // Not failed, and when idle: the peer has not closed it.
  bool IsHealthy() const;

  // Every outstanding op gets `status`, the socket is closed. The first failure stays.
  void Fail(const absl::Status& status);

 private:
  enum class Kind : uint8_t {
    kHello,
    kRead,
    kWrite,  // its payload and SEAL follow each other; one entry for both
    kClaim,  // a mapped write: becomes kSeal once it is claimed and copied
    kSeal,
  };
  struct Entry {
    Kind kind = Kind::kHello;
    uint64_t id = 0;
    ReadOp* read = nullptr;
    WriteOp* write = nullptr;
    bool is_verified = false;          // of a READ: by its checksum, or else by a confirmation
    uint64_t output_end = UINT64_MAX;  // it is sent when the output has got there
    absl::Status refusal;              // of the WRITE, whose SEAL is still to be answered
  };

  // client_stream.cc
  absl::Status CheckRoom(uint64_t bytes) const;
  void Push(Kind kind, ReadOp* read, WriteOp* write);
  Entry& At(uint64_t position) { return ring_[position % ring_.size()]; }
  Entry& Front() { return At(head_); }
  const Entry& Front() const { return ring_[head_ % ring_.size()]; }
  void FinishFront(const absl::Status& status);

  // client_send.cc
  bool Send();
  void FillOutput();
  void StartEntry(Entry& entry);
  void ContinuePayload();
  void SendDoubts();
  bool has_unsent() const { return next_ != tail_ || is_sending_payload_ || has_doubts(); }

  // client_receive.cc
  bool Receive();
  bool TakeAnswer();
  bool OnAnswer(const FrameHeader& header, ConstBytes body);
  bool OnPlainAnswer(FrameType request, const absl::Status& status);
  bool OnHelloOk(ConstBytes body);
  bool StartReadPayload(const FrameHeader& header, ConstBytes part_header);
  void TakePayload();
  void OnPayload(size_t bytes);
  void FinishRead();
  void FinishReadWith(const absl::Status& verdict);
  void StartCopy(const absl::Status& claimed);
  void CopySome();
  bool FillInput();
  size_t AnswerHeadroom() const;
  void FailBadAnswer(absl::string_view what);
  ConstBytes input() const {
    return ConstBytes(input_.data() + input_begin_, input_end_ - input_begin_);
  }
  void ConsumeInput(size_t bytes);

  const Limits limits_;
  UniqueFd fd_;
  MappedPool* mapped_;
  absl::Status failure_;
  bool is_ready_ = false;
  bool peer_confirms_ = false;
  bool peer_takes_doubts_ = false;
  size_t outstanding_ = 0;  // ops, HELLO not counted
  uint64_t outstanding_bytes_ = 0;
  uint64_t next_id_ = 1;

  // Positions only grow: head_ <= next_ <= tail_ <= head_ + ring_.size().
  std::vector<Entry> ring_;
  uint64_t head_ = 0;  // is answered next
  uint64_t next_ = 0;  // is sent next
  uint64_t tail_ = 0;

  std::vector<ExtentRequest> doubts_;  // to be sent between two entries

  OutputQueue output_;
  bool is_sending_payload_ = false;  // of the entry before next_
  SpanCursor<const std::byte> from_;
  ChecksumStream from_checksum_;

  std::vector<std::byte> input_;
  size_t input_begin_ = 0;
  size_t input_end_ = 0;
  bool is_receiving_payload_ = false;  // of the front
  size_t padding_ = 0;                 // behind the last payload, still to come
  absl::StatusOr<PartHeader> part_header_;
  SpanCursor<std::byte> into_;
  ChecksumStream into_checksum_;
  bool is_confirming_ = false;  // the front's payload is there, and whose it was still to be told
  bool is_copying_ = false;     // the front's payload, into mapped memory
  SpanCursor<const std::byte> copy_from_;
  MutableBytes copy_into_;    // what is left to fill; empty: sealed already, only to be hashed
  uint64_t moved_bytes_ = 0;  // by this Progress
};

}  // namespace moonpool::transport
