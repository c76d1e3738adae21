// absl::Status -> moonpool.MoonpoolError. The classes are Python's own (moonpool/_errors.py).
#pragma once

#include <pybind11/pybind11.h>

#include "absl/status/status.h"

namespace moonpool::python {

// A new instance of the class that belongs to the status's code, with all it says. Not raised: that
// is how batches return what went wrong with one item.
pybind11::object ErrorOf(const absl::Status& status);

[[noreturn]] void Raise(const absl::Status& status);
inline void RaiseIfError(const absl::Status& status) {
  if (!status.ok()) Raise(status);
}

// InvalidArgument, for what is found wrong before the client is asked.
[[noreturn]] void RaiseInvalid(absl::string_view message, absl::string_view hint = "");

// Text that may hold any bytes: what is no UTF-8 is escaped.
pybind11::str TextOf(absl::string_view bytes);

}  // namespace moonpool::python
