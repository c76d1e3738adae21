// The bytes that replay stores under a key: a function of the key alone, so that every byte read
// can be checked without keeping what was written. Word i is a mix of the key's 64-bit hash and i:
// a block of another key, of another place in the block, or a torn one does not pass.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace moonpool::replay {

void FillContent(absl::string_view key, absl::Span<std::byte> into);

// Bytes that are not what FillContent writes.
uint64_t CountWrongBytes(absl::string_view key, absl::Span<const std::byte> bytes);

}  // namespace moonpool::replay
