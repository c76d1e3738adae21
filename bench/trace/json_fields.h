// Checked access to JSON of unknown origin: everything that is not as expected becomes an
// InvalidArgument that names the field. No exceptions.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace moonpool::trace {

using Json = nlohmann::json;

// The cause of an error names the byte.
absl::StatusOr<Json> ParseJson(absl::string_view text);

// The member, which must be there, as an integer in [0, max].
absl::StatusOr<uint64_t> UintField(const Json& object, const char* name, uint64_t max);
// The member as a time since the start: a number >= 0, at most 100 years.
absl::StatusOr<absl::Duration> TimeField(const Json& object, const char* name, absl::Duration unit);
// The member as an array of integers in [0, 2^40).
absl::StatusOr<std::vector<uint64_t>> IdsField(const Json& object, const char* name);

inline constexpr uint64_t kBlockIdLimit = uint64_t{1} << 40;

}  // namespace moonpool::trace
