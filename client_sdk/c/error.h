// What C functions say of a failure: an absl::Status with its texts made, so that a `const char*`
// into it lives as long as it does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "moonpool/c.h"

struct moonpool_error {
  int code = MOONPOOL_OK;
  int reason = MOONPOOL_REASON_UNSPECIFIED;
  uint64_t retry_after_ms = 0;
  std::string text = {};
  std::string message = {};
  std::string hint = {};
  std::string key = {};
  std::string node = {};
};

// Of the items of a batch that failed, by their index. Their addresses stay.
struct moonpool_errors {
  std::map<size_t, moonpool_error> by_index = {};
};

namespace moonpool::c_api {

moonpool_error ErrorOf(const absl::Status& status);

// Of the calling thread.
moonpool_error& LastError();

// Makes it the last error, for which it needs no memory. Returns the code.
int ReportOutOfMemory() noexcept;

}  // namespace moonpool::c_api
