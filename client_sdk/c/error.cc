#include "client_sdk/c/error.h"

#include <optional>

#include "common/error.h"
#include "common/version.h"

namespace moonpool::c_api {

moonpool_error ErrorOf(const absl::Status& status) {
  moonpool_error error;
  if (status.ok()) return error;
  error.code = static_cast<int>(status.code());
  error.text = Describe(status);
  error.message = std::string(status.message());
  const std::optional<ErrorDetail> detail = DetailOf(status);
  if (!detail.has_value()) return error;
  error.reason = static_cast<int>(detail->reason);
  error.retry_after_ms = static_cast<uint64_t>(absl::ToInt64Milliseconds(detail->retry_after));
  error.hint = detail->hint;
  error.key = detail->key;
  error.node = detail->node;
  return error;
}

moonpool_error& LastError() {
  thread_local moonpool_error error;
  return error;
}

int ReportOutOfMemory() noexcept {
  moonpool_error& error = LastError();
  for (std::string* text : {&error.text, &error.message, &error.hint, &error.key, &error.node}) {
    text->clear();
  }
  // So short that a string of any size has room for it.
  error.text = error.message = "out of memory";
  error.code = MOONPOOL_RESOURCE_EXHAUSTED;
  error.reason = MOONPOOL_REASON_LIMIT_REACHED;
  error.retry_after_ms = 0;
  return error.code;
}

}  // namespace moonpool::c_api

namespace {

using moonpool::c_api::LastError;

const char* TextOf(const moonpool_error* error, const std::string moonpool_error::*text) {
  return error == nullptr ? "" : (error->*text).c_str();
}

}  // namespace

const char* moonpool_code_name(int code) {
  // absl makes a new string of each.
  static constexpr const char* kNames[] = {"OK",
                                           "CANCELLED",
                                           "UNKNOWN",
                                           "INVALID_ARGUMENT",
                                           "DEADLINE_EXCEEDED",
                                           "NOT_FOUND",
                                           "ALREADY_EXISTS",
                                           "PERMISSION_DENIED",
                                           "RESOURCE_EXHAUSTED",
                                           "FAILED_PRECONDITION",
                                           "ABORTED",
                                           "OUT_OF_RANGE",
                                           "UNIMPLEMENTED",
                                           "INTERNAL",
                                           "UNAVAILABLE",
                                           "DATA_LOSS",
                                           "UNAUTHENTICATED"};
  static_assert(std::size(kNames) == MOONPOOL_UNAUTHENTICATED + 1);
  return code >= 0 && code <= MOONPOOL_UNAUTHENTICATED ? kNames[code] : "";
}

const char* moonpool_reason_name(int reason) {
  if (reason == MOONPOOL_REASON_UNSPECIFIED) return "";
  // It looks into a std::string of protobuf's tables, so there is a NUL behind it.
  return moonpool::ReasonName(static_cast<moonpool::ErrorReason>(reason)).data();
}

const char* moonpool_version(void) { return moonpool::kReleaseVersion; }

const char* moonpool_last_error(void) { return LastError().text.c_str(); }

const moonpool_error* moonpool_last_error_detail(void) { return &LastError(); }

int moonpool_error_code(const moonpool_error* error) {
  return error == nullptr ? MOONPOOL_OK : error->code;
}

int moonpool_error_reason(const moonpool_error* error) {
  return error == nullptr ? MOONPOOL_REASON_UNSPECIFIED : error->reason;
}

const char* moonpool_error_text(const moonpool_error* error) {
  return TextOf(error, &moonpool_error::text);
}

const char* moonpool_error_message(const moonpool_error* error) {
  return TextOf(error, &moonpool_error::message);
}

const char* moonpool_error_hint(const moonpool_error* error) {
  return TextOf(error, &moonpool_error::hint);
}

const char* moonpool_error_node(const moonpool_error* error) {
  return TextOf(error, &moonpool_error::node);
}

uint64_t moonpool_error_retry_after_ms(const moonpool_error* error) {
  return error == nullptr ? 0 : error->retry_after_ms;
}

moonpool_bytes moonpool_error_key(const moonpool_error* error) {
  if (error == nullptr || error->key.empty()) return {nullptr, 0};
  return {error->key.data(), error->key.size()};
}

const moonpool_error* moonpool_errors_at(const moonpool_errors* errors, size_t index) {
  if (errors == nullptr) return nullptr;
  const auto found = errors->by_index.find(index);
  return found == errors->by_index.end() ? nullptr : &found->second;
}

void moonpool_errors_destroy(moonpool_errors* errors) { delete errors; }
