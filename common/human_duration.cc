#include "common/human_duration.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"

namespace moonpool {

std::string HumanDuration(absl::Duration duration) {
  if (duration == absl::InfiniteDuration()) return "forever";
  const int64_t millis = std::max<int64_t>(0, absl::ToInt64Milliseconds(duration));
  const int64_t seconds = millis / 1000;
  if (millis < 1000) return absl::StrCat(millis, "ms");
  if (seconds < 60) return absl::StrCat(seconds, ".", millis % 1000 / 100, "s");
  if (seconds < 3600) return absl::StrCat(seconds / 60, "m ", seconds % 60, "s");
  if (seconds < 86400) return absl::StrCat(seconds / 3600, "h ", seconds % 3600 / 60, "m");
  return absl::StrCat(seconds / 86400, "d ", seconds % 86400 / 3600, "h");
}

}  // namespace moonpool
