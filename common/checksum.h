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

// Where a copy leaves its bytes. Past the cache (non-temporal stores) is faster for what does not
// fit there, and slower for what is used again from there.
enum class CopyTo { kCache, kMemory };

// Streaming form: the same result for the concatenation of all updates. Thread-compatible.
class ChecksumStream {
 public:
  ChecksumStream();
  ~ChecksumStream();
  ChecksumStream(ChecksumStream&&) noexcept;
  ChecksumStream& operator=(ChecksumStream&&) noexcept;

  void Reset();
  void Update(absl::Span<const std::byte> bytes);
  // Copies `source` to `destination` (same size, no overlap) and updates with its bytes in one
  // pass. The bytes that are hashed are those that are stored, even if somebody changes `source` at
  // the same time. Fast from about 1 KiB on; kMemory wants a destination of 16-byte alignment.
  void CopyAndUpdate(std::byte* destination, absl::Span<const std::byte> source,
                     CopyTo to = CopyTo::kCache);
  uint64_t Finish() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The copy alone. No overlap.
void CopyBytes(std::byte* destination, absl::Span<const std::byte> source,
               CopyTo to = CopyTo::kCache);

}  // namespace moonpool
