// The two macros of the error style: return early, or unwrap. Nothing else.
//
//   RETURN_IF_ERROR(index.Seal(record));
//   ASSIGN_OR_RETURN(Extent extent, allocator.Allocate(bytes));
//
// Add context where the knowledge is, with Annotate() from common/error.h.
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define MOONPOOL_CONCAT_INNER(a, b) a##b
#define MOONPOOL_CONCAT(a, b) MOONPOOL_CONCAT_INNER(a, b)

#define RETURN_IF_ERROR(expr)                                           \
  do {                                                                  \
    if (absl::Status moonpool_status = (expr); !moonpool_status.ok()) { \
      return moonpool_status;                                           \
    }                                                                   \
  } while (false)

#define ASSIGN_OR_RETURN(lhs, expr) \
  MOONPOOL_ASSIGN_OR_RETURN(MOONPOOL_CONCAT(moonpool_statusor_, __LINE__), lhs, expr)

#define MOONPOOL_ASSIGN_OR_RETURN(statusor, lhs, expr) \
  auto statusor = (expr);                              \
  if (!statusor.ok()) {                                \
    return std::move(statusor).status();               \
  }                                                    \
  lhs = *std::move(statusor)
