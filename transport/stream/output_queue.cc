#include "transport/stream/output_queue.h"

#include <algorithm>
#include <array>

#include "common/check.h"
#include "common/status_macros.h"
#include "transport/frame.h"
#include "transport/stream/socket.h"

namespace moonpool::transport {
namespace {

constexpr size_t kVectorsMax = 64;

}  // namespace

std::byte* OutputQueue::Reserve() {
  if (small_.size() - small_end_ < kFrameBytesMax) Compact();
  if (small_.size() - small_end_ < kFrameBytesMax) {
    small_.resize(std::max(2 * small_.size(), small_end_ + kFrameBytesMax));
  }
  return small_.data() + small_end_;
}

void OutputQueue::Commit(size_t bytes) {
  MP_CHECK(bytes <= kFrameBytesMax, "frame overran its room", bytes);
  small_end_ += bytes;
  pending_bytes_ += bytes;
  position_ += bytes;
}

void OutputQueue::Borrow(ConstBytes bytes) {
  if (bytes.empty()) return;
  borrowed_.push_back({small_end_, bytes});
  pending_bytes_ += bytes.size();
  position_ += bytes.size();
}

absl::StatusOr<size_t> OutputQueue::Flush(int fd, size_t bytes_max) {
  if (empty()) return 0;
  std::array<iovec, kVectorsMax> vectors;
  const size_t count = FillVectors(absl::MakeSpan(vectors), bytes_max);
  ASSIGN_OR_RETURN(const size_t sent, Send(fd, absl::MakeConstSpan(vectors.data(), count)));
  Consume(sent);
  return sent;
}

void OutputQueue::Clear() {
  borrowed_.clear();
  small_sent_ = small_end_ = borrowed_sent_ = 0;
  position_ -= pending_bytes_;
  pending_bytes_ = 0;
}

size_t OutputQueue::FillVectors(absl::Span<iovec> vectors, size_t bytes_max) const {
  size_t count = 0;
  const auto add = [&](const std::byte* from, size_t bytes) {
    bytes = std::min(bytes, bytes_max);
    if (bytes == 0) return;
    vectors[count++] = {const_cast<std::byte*>(from), bytes};
    bytes_max -= bytes;
  };
  size_t small_at = small_sent_;
  // Each turn fills up to two entries, and the last small bytes one more.
  for (size_t i = borrowed_sent_; i < borrowed_.size() && count + 3 <= vectors.size(); ++i) {
    add(small_.data() + small_at, borrowed_[i].after_small - small_at);
    add(borrowed_[i].bytes.data(), borrowed_[i].bytes.size());
    small_at = borrowed_[i].after_small;
    if (i + 1 == borrowed_.size()) add(small_.data() + small_at, small_end_ - small_at);
  }
  if (borrowed_sent_ == borrowed_.size()) add(small_.data() + small_at, small_end_ - small_at);
  return count;
}

void OutputQueue::Consume(size_t bytes) {
  pending_bytes_ -= bytes;
  while (bytes > 0) {
    const bool has_borrowed = borrowed_sent_ < borrowed_.size();
    const size_t small_until = has_borrowed ? borrowed_[borrowed_sent_].after_small : small_end_;
    const size_t small = std::min(bytes, small_until - small_sent_);
    small_sent_ += small;
    bytes -= small;
    if (bytes == 0) break;
    MP_CHECK(has_borrowed, "sent more than was queued", bytes);
    ConstBytes& front = borrowed_[borrowed_sent_].bytes;
    const size_t taken = std::min(bytes, front.size());
    front.remove_prefix(taken);
    bytes -= taken;
    if (front.empty()) ++borrowed_sent_;
  }
  if (empty()) Clear();
}

// Moves what is left to the front: the vectors stay as small as their bounds.
void OutputQueue::Compact() {
  borrowed_.erase(borrowed_.begin(), borrowed_.begin() + static_cast<ptrdiff_t>(borrowed_sent_));
  borrowed_sent_ = 0;
  for (Borrowed& borrowed : borrowed_) borrowed.after_small -= small_sent_;
  std::copy(small_.begin() + static_cast<ptrdiff_t>(small_sent_),
            small_.begin() + static_cast<ptrdiff_t>(small_end_), small_.begin());
  small_end_ -= small_sent_;
  small_sent_ = 0;
}

}  // namespace moonpool::transport
