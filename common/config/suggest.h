// "Did you mean": the nearest of some known words.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace moonpool {

// Empty when no candidate is near enough to be what was meant.
std::string NearestWord(absl::string_view word, const std::vector<std::string>& candidates);

}  // namespace moonpool
