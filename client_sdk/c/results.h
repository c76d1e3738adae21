// The results of a batch: an array of the caller's, and the texts of what failed where it wants
// them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "moonpool/c.h"

namespace moonpool::c_api {

struct Outcome {
  absl::Status status;
  uint64_t bytes = 0;
};

std::vector<Outcome> ToOutcomes(const std::vector<absl::Status>& statuses);
std::vector<Outcome> ToOutcomes(const std::vector<absl::StatusOr<size_t>>& sizes);

// As Enter, for a batch: checks `results`, which have room for `count`, and fills them and `errors`
// (may be NULL) with what `body` returns, one for each item. When that is a failure all results
// say so.
int EnterBatch(size_t count, moonpool_result* results, moonpool_errors** errors,
               absl::FunctionRef<absl::StatusOr<std::vector<Outcome>>()> body) noexcept;

// Adds one to `errors`, which is made where there are none yet, or may be NULL.
void AddError(size_t index, const absl::Status& status, moonpool_errors** errors);

// For a call that fails after all: there are none.
void TakeBack(moonpool_errors** errors) noexcept;

}  // namespace moonpool::c_api
