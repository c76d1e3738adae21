// The outcome of a batch, a line or a JSON object per key.
#pragma once

#include <string>
#include <vector>

#include "absl/types/span.h"
#include "cli/command.h"

namespace moonpool::cli {

// `ok_word` stands for an OK status. Returns the exit code: kFailed when a call failed, kNotFound
// when some key was not there, else kOk.
int PrintKeyResults(const Session& session, absl::Span<const std::string> keys,
                    absl::Span<const absl::Status> results, const std::string& ok_word);

}  // namespace moonpool::cli
