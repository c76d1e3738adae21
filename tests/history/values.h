// Values that say which put wrote them, so that whoever reads one knows whose it is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"

namespace moonpool::history {

// The bytes of one put attempt: its id, and a stream that only this id and key give.
std::vector<std::byte> ValueOf(const std::string& key, uint64_t attempt, size_t size);
// The attempt that wrote these bytes; 0 when they are nobody's (or torn). An empty value is
// attempt-less: kEmptyValue.
inline constexpr uint64_t kEmptyValue = UINT64_MAX;
uint64_t AttemptOf(const std::string& key, absl::Span<const std::byte> bytes);

}  // namespace moonpool::history
