// A run in figures.
#pragma once

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "nlohmann/json.hpp"
#include "tests/history/record.h"

namespace moonpool::chaos {

// By kind and outcome: {"put": {"done": 12, ...}, ...}.
nlohmann::json CountCalls(absl::Span<const history::Record> records);

// The longest time in which no call of these kinds was answered, by whomever. Errors are no
// answers.
absl::Duration LongestSilence(absl::Span<const history::Record> records,
                              absl::Span<const history::Op> ops);

}  // namespace moonpool::chaos
