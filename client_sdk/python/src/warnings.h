// What clients have to say and no call returns, to a function of Python's.
#pragma once

#include <pybind11/pybind11.h>

#include <functional>
#include <memory>

#include "absl/strings/string_view.h"

namespace moonpool::python {

// Owned by the Python object that makes the client, and made and destroyed with the GIL: the
// function goes with that object, or when the collector takes it, and not with the client's last
// thread, which would need the GIL for it.
class Warnings {
 public:
  // `function` is called with each line; None: nothing is.
  explicit Warnings(pybind11::object function);
  ~Warnings();
  Warnings(const Warnings&) = delete;
  Warnings& operator=(const Warnings&) = delete;

  // For the client, from any thread of it. What the function raises is reported as unraisable; in a
  // forked child, and once the interpreter ends, it is not called.
  std::function<void(absl::string_view)> Sink() const;

  // For the collector (collector.h): a bound method of what has the client is a cycle.
  pybind11::object& function() { return *function_; }

 private:
  // Touched with the GIL, but destroyed anywhere: it is empty by then.
  // Shared with what Sink() made, which ends with the client's last thread.
  std::shared_ptr<pybind11::object> function_;
};

}  // namespace moonpool::python
