// Keys are any bytes. People see and type them as printable ASCII: a backslash is written \\, and
// every byte that is not printable ASCII is written \xHH. What a command prints, another accepts.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace moonpool::cli {

std::string KeyToText(absl::string_view key);

// INVALID_ARGUMENT for an escape that is none.
absl::StatusOr<std::string> KeyFromText(absl::string_view text);

}  // namespace moonpool::cli
