// Text in lines that fit.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace moonpool::cli {

// What is not printable ASCII as \xHH: names come from other hosts, and neither a line break nor an
// escape sequence of theirs may reach the terminal.
std::string Printable(absl::string_view text);

// Lines of at most `width` characters, broken at spaces where that is possible; 0 = one line. At
// least one line. ASCII only.
std::vector<std::string> WrapText(absl::string_view text, size_t width);

}  // namespace moonpool::cli
