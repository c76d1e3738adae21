#include "common/config/suggest.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

#include "absl/strings/match.h"

namespace moonpool {
namespace {

// Longer input is no typo of ours, and the distance costs length times length.
constexpr size_t kWordBytesMax = 64;

size_t EditDistance(absl::string_view a, absl::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

}  // namespace

std::string NearestWord(absl::string_view word, const std::vector<std::string>& candidates) {
  if (word.empty() || word.size() > kWordBytesMax) return "";
  std::string nearest;
  size_t nearest_distance = std::max<size_t>(2, word.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    const size_t distance = EditDistance(word, candidate);
    if (distance < nearest_distance) {
      nearest_distance = distance;
      nearest = candidate;
    }
  }
  if (!nearest.empty()) return nearest;
  // "listen" for "data.listen": the right word without its section.
  for (const std::string& candidate : candidates) {
    if (absl::EndsWith(candidate, word)) return candidate;
  }
  return "";
}

}  // namespace moonpool
