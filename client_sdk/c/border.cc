#include "client_sdk/c/border.h"

#include <exception>
#include <new>

#include "absl/strings/str_cat.h"
#include "client_sdk/c/error.h"
#include "common/error.h"

namespace moonpool::c_api {
namespace {

int Report(const absl::Status& status) {
  if (!status.ok()) LastError() = ErrorOf(status);
  return static_cast<int>(status.code());
}

int RunAndReport(absl::FunctionRef<absl::Status()> body) {
  try {
    return Report(body());
  } catch (const std::bad_alloc&) {
    return ReportOutOfMemory();
  } catch (const std::exception& thrown) {
    return Report(absl::InternalError(absl::StrCat("an exception: ", thrown.what())));
  } catch (...) {
    return Report(absl::InternalError("an exception of an unknown type"));
  }
}

}  // namespace

int Enter(absl::FunctionRef<absl::Status()> body) noexcept {
  try {
    return RunAndReport(body);
  } catch (...) {
    // There was no memory to say what happened.
    return ReportOutOfMemory();
  }
}

absl::Status WrongUse(absl::string_view message) {
  return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kBadArgument, message,
                   {.hint = "see moonpool/c.h"});
}

}  // namespace moonpool::c_api
