// The policies by name, for configuration, the CLI and the benchmarks.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "master/core/eviction/policy.h"

namespace moonpool::master {

struct PolicyInfo {
  absl::string_view name;
  absl::string_view summary;  // one line
};

inline constexpr absl::string_view kDefaultEvictionPolicy = "cohort";

absl::Span<const PolicyInfo> EvictionPolicies();

// InvalidArgument for an unknown name, with the list of the known ones. `slots` must outlive the
// policy and may be shared by policies that own different slots.
absl::StatusOr<std::unique_ptr<EvictionPolicy>> MakeEvictionPolicy(absl::string_view name,
                                                                   SlotTable& slots);

}  // namespace moonpool::master
