// The border between C and C++: what every function of moonpool/c.h that can fail runs inside.
#pragma once

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

namespace moonpool::c_api {

// What `body` returns, as a code; a failure becomes the thread's last error. Whatever is thrown in
// it ends here and is a failure, too. What the SDK does when it is left like that: locks are given
// up, and channels with something outstanding are closed, so that nobody writes into the caller's
// buffers afterwards.
int Enter(absl::FunctionRef<absl::Status()> body) noexcept;

// INVALID_ARGUMENT/BAD_ARGUMENT.
absl::Status WrongUse(absl::string_view message);

}  // namespace moonpool::c_api
