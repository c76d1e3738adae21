// What a connection has still to send: small frames, which are copied in, and large payloads, which
// are borrowed where they lie, in the order in which they were appended.
//
// Thread-compatible. Memory: the caller bounds it by looking at small_bytes() and borrowed_count()
// before it appends.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "transport/ops.h"

namespace moonpool::transport {

class OutputQueue {
 public:
  // Room for a frame of up to kFrameBytesMax; Commit says how long it became.
  std::byte* Reserve();
  void Commit(size_t bytes);
  // `bytes` stay as they are until they are sent or the queue is cleared.
  void Borrow(ConstBytes bytes);

  bool empty() const { return pending_bytes_ == 0; }
  uint64_t pending_bytes() const { return pending_bytes_; }
  // Positions in all that was ever queued: a frame is sent when sent_position() has reached the
  // position() that was read after it was queued.
  uint64_t position() const { return position_; }
  uint64_t sent_position() const { return position_ - pending_bytes_; }
  size_t small_bytes() const { return small_end_ - small_sent_; }
  size_t borrowed_count() const { return borrowed_.size() - borrowed_sent_; }

  // One sendmsg of at most bytes_max. 0: the socket takes nothing now. UNAVAILABLE: it is gone.
  absl::StatusOr<size_t> Flush(int fd, size_t bytes_max);
  void Clear();

 private:
  struct Borrowed {
    size_t after_small;  // position in small_ that is sent before it
    ConstBytes bytes;
  };

  size_t FillVectors(absl::Span<iovec> vectors, size_t bytes_max) const;
  void Consume(size_t bytes);
  void Compact();

  std::vector<std::byte> small_;
  size_t small_sent_ = 0;
  size_t small_end_ = 0;
  std::vector<Borrowed> borrowed_;
  size_t borrowed_sent_ = 0;  // index of the first that is not completely sent
  uint64_t pending_bytes_ = 0;
  uint64_t position_ = 0;
};

}  // namespace moonpool::transport
