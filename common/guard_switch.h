// The switch behind GuardIsOn, in a build for the mutation check (MOONPOOL_MUTATION). No other
// build has it. Of the whole process, as the guards are: it is thrown between runs, never in one.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/guard.h"

namespace moonpool {

// As in `--without`: "read-identity".
absl::string_view GuardName(Guard guard);
std::optional<Guard> GuardNamed(absl::string_view name);

// These guards are off for as long as this lives. One at a time.
class WithoutGuards {
 public:
  explicit WithoutGuards(absl::Span<const Guard> guards);
  ~WithoutGuards();
  WithoutGuards(const WithoutGuards&) = delete;
  WithoutGuards& operator=(const WithoutGuards&) = delete;
};

}  // namespace moonpool
