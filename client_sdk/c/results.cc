#include "client_sdk/c/results.h"

#include "absl/strings/str_cat.h"
#include "client_sdk/c/border.h"
#include "client_sdk/c/error.h"
#include "common/error.h"
#include "common/status_macros.h"
#include "common/types.h"

namespace moonpool::c_api {
namespace {

static_assert(MOONPOOL_BATCH_MAX == kMaxBatchKeys);

absl::Status CheckResults(size_t count, const moonpool_result* results) {
  if (count > MOONPOOL_BATCH_MAX) {
    return MakeError(
        absl::StatusCode::kInvalidArgument, ErrorReason::kBatchTooLarge,
        absl::StrCat("the batch has ", count, " items, more than ", MOONPOOL_BATCH_MAX),
        {.hint = "split it"});
  }
  if (results == nullptr && count > 0) return WrongUse("results is NULL");
  return absl::OkStatus();
}

}  // namespace

std::vector<Outcome> ToOutcomes(const std::vector<absl::Status>& statuses) {
  std::vector<Outcome> outcomes;
  outcomes.reserve(statuses.size());
  for (const absl::Status& status : statuses) outcomes.push_back({.status = status});
  return outcomes;
}

std::vector<Outcome> ToOutcomes(const std::vector<absl::StatusOr<size_t>>& sizes) {
  std::vector<Outcome> outcomes;
  outcomes.reserve(sizes.size());
  for (const absl::StatusOr<size_t>& size : sizes) {
    outcomes.push_back({.status = size.status(), .bytes = size.ok() ? *size : 0});
  }
  return outcomes;
}

int EnterBatch(size_t count, moonpool_result* results, moonpool_errors** errors,
               absl::FunctionRef<absl::StatusOr<std::vector<Outcome>>()> body) noexcept {
  if (errors != nullptr) *errors = nullptr;
  bool has_room = false;
  const int code = Enter([&]() -> absl::Status {
    RETURN_IF_ERROR(CheckResults(count, results));
    has_room = true;
    ASSIGN_OR_RETURN(const std::vector<Outcome> outcomes, body());
    for (size_t i = 0; i < count; ++i) {
      const absl::Status& status = outcomes[i].status;
      results[i] = {.code = static_cast<int32_t>(status.code()),
                    .reason = static_cast<int32_t>(ReasonOf(status)),
                    .bytes = outcomes[i].bytes};
      AddError(i, status, errors);
    }
    return absl::OkStatus();
  });
  if (code == MOONPOOL_OK) return code;
  TakeBack(errors);
  for (size_t i = 0; has_room && i < count; ++i) {
    results[i] = {.code = code, .reason = LastError().reason, .bytes = 0};
  }
  return code;
}

void AddError(size_t index, const absl::Status& status, moonpool_errors** errors) {
  if (errors == nullptr || status.ok()) return;
  if (*errors == nullptr) *errors = new moonpool_errors;
  (*errors)->by_index.emplace(index, ErrorOf(status));
}

void TakeBack(moonpool_errors** errors) noexcept {
  if (errors == nullptr) return;
  moonpool_errors_destroy(*errors);
  *errors = nullptr;
}

}  // namespace moonpool::c_api
