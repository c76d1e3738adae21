#include "master/core/eviction/registry.h"

#include <iterator>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "master/core/eviction/cohort.h"
#include "master/core/eviction/lru.h"
#include "master/core/eviction/s3fifo.h"

namespace moonpool::master {
namespace {

template <typename Policy>
std::unique_ptr<EvictionPolicy> Make(SlotTable& slots) {
  return std::make_unique<Policy>(slots);
}

constexpr PolicyInfo kPolicies[] = {
    {"cohort", "learns how long new, returning and regular chains are worth keeping; the default"},
    {"s3fifo", "small, main and ghost FIFO queues (SOSP'23); scan-resistant, cheapest on hits"},
    {"lru", "least recently used; the baseline"},
};
constexpr std::unique_ptr<EvictionPolicy> (*kMakers[])(SlotTable&) = {
    Make<CohortPolicy>, Make<S3FifoPolicy>, Make<LruPolicy>};
static_assert(std::size(kPolicies) == std::size(kMakers));

}  // namespace

absl::Span<const PolicyInfo> EvictionPolicies() { return kPolicies; }

absl::StatusOr<std::unique_ptr<EvictionPolicy>> MakeEvictionPolicy(absl::string_view name,
                                                                   SlotTable& slots) {
  for (size_t i = 0; i < std::size(kPolicies); ++i) {
    if (kPolicies[i].name == name) return kMakers[i](slots);
  }
  const auto append_name = [](std::string* out, const PolicyInfo& info) {
    absl::StrAppend(out, info.name);
  };
  return absl::InvalidArgumentError(absl::StrCat("eviction policy \"", name,
                                                 "\" is unknown; known are ",
                                                 absl::StrJoin(kPolicies, ", ", append_name)));
}

}  // namespace moonpool::master
