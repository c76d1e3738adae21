// The checksum of the product: XXH3, 64 bits, seed 0 (xxHash 0.8). Also fused with a copy, so
// that the bytes are read from memory once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace moonpool {

uint64_t Checksum(absl::Span<const std::byte> bytes);
inline uint64_t Checksum(absl::string_view text) {
  return Checksum(
      absl::MakeConstSpan(reinterpret_cast<const std::byte*>(text.data()), text.size()));
}

// Streaming form: the same result for the concatenation of all updates. Thread-compatible.
class ChecksumStream {
 public:
  ChecksumStream();
  ~ChecksumStream();
  ChecksumStream(ChecksumStream&&) noexcept;
  ChecksumStream& operator=(ChecksumStream&&) noexcept;

  void Reset();
  void Update(absl::Span<const std::byte> bytes);
  // Copies `source` to `destination` (same size, no overlap) and updates with its bytes, block by
  // block. Large copies bypass the cache (non-temporal stores). The bytes that are hashed are
  // those that are stored, even if somebody changes `source` at the same time.
  void CopyAndUpdate(std::byte* destination, absl::Span<const std::byte> source);
  uint64_t Finish() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The fastest copy for large blocks (non-temporal stores from a few KiB up). No overlap.
void CopyBytes(std::byte* destination, absl::Span<const std::byte> source);

}  // namespace moonpool
