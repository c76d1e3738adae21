// Sizes and durations as people write them.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace moonpool {

inline constexpr uint64_t kKiB = uint64_t{1} << 10;
inline constexpr uint64_t kMiB = uint64_t{1} << 20;
inline constexpr uint64_t kGiB = uint64_t{1} << 30;
inline constexpr uint64_t kTiB = uint64_t{1} << 40;

// "4096", "4096B", "256MiB", "1.5GiB" (powers of 1024), "10MB" (powers of 1000); one space is
// allowed before the unit. "256M" is refused: it says neither.
absl::StatusOr<uint64_t> ParseBytes(absl::string_view text);

// Exact and short, and ParseBytes reads it back: "256MiB", "1536MiB", "1000B".
std::string FormatBytes(uint64_t bytes);

// For people, rounded: "1.5 GiB", "932 B".
std::string HumanBytes(uint64_t bytes);

// "250ms", "2s", "1h30m", "7d"; "0" needs no unit; negative and infinite ones are refused.
// What absl::FormatDuration writes reads back.
absl::StatusOr<absl::Duration> ParseDuration(absl::string_view text);

}  // namespace moonpool
