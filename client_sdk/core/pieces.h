// Cuts scatter lists, so that objects of several parts and buffers of several pieces need not
// match.
#pragma once

#include <cstddef>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"
#include "transport/span_cursor.h"

namespace moonpool::client {

template <typename Byte>
size_t TotalBytes(const std::vector<absl::Span<Byte>>& pieces) {
  return transport::SpanCursor<Byte>(pieces).remaining();
}

// The next `bytes` bytes of the cursor, fewer when there are no more. No empty pieces.
template <typename Byte>
absl::InlinedVector<absl::Span<Byte>, 1> TakePieces(transport::SpanCursor<Byte>& cursor,
                                                    size_t bytes) {
  absl::InlinedVector<absl::Span<Byte>, 1> taken;
  while (bytes > 0 && cursor.remaining() > 0) {
    const absl::Span<Byte> piece = cursor.Next(bytes);
    taken.push_back(piece);
    cursor.Advance(piece.size());
    bytes -= piece.size();
  }
  return taken;
}

}  // namespace moonpool::client
