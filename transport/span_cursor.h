// Walks over the scattered buffers of an op.
#pragma once

#include <sys/uio.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "absl/types/span.h"

namespace moonpool::transport {

// Borrows the list of spans. Byte is std::byte or const std::byte.
template <typename Byte>
class SpanCursor {
 public:
  using Piece = absl::Span<Byte>;

  SpanCursor() = default;
  explicit SpanCursor(absl::Span<const Piece> spans) : spans_(spans) {
    for (const Piece& span : spans) remaining_ += span.size();
  }

  uint64_t remaining() const { return remaining_; }

  // The next bytes that lie together: not empty unless nothing remains.
  Piece Next(size_t bytes_max) {
    while (!spans_.empty() && offset_ == spans_.front().size()) {
      spans_.remove_prefix(1);
      offset_ = 0;
    }
    if (spans_.empty()) return {};
    return spans_.front().subspan(offset_, bytes_max);
  }

  // At most what Next() returned.
  void Advance(size_t bytes) {
    offset_ += bytes;
    remaining_ -= bytes;
  }

  // Describes the next bytes without moving. Returns the number of entries filled; *bytes is
  // their sum, at most bytes_max.
  size_t FillVectors(absl::Span<iovec> vectors, size_t bytes_max, size_t* bytes) const {
    SpanCursor ahead = *this;
    size_t count = 0;
    *bytes = 0;
    while (count < vectors.size() && *bytes < bytes_max) {
      const Piece piece = ahead.Next(bytes_max - *bytes);
      if (piece.empty()) break;
      vectors[count++] = {const_cast<std::remove_const_t<Byte>*>(piece.data()), piece.size()};
      *bytes += piece.size();
      ahead.Advance(piece.size());
    }
    return count;
  }

 private:
  absl::Span<const Piece> spans_;
  size_t offset_ = 0;  // in the front span
  uint64_t remaining_ = 0;
};

}  // namespace moonpool::transport
