// Options of clients, as Python has them.
#pragma once

#include <pybind11/pybind11.h>

#include <functional>
#include <string>

#include "absl/strings/string_view.h"
#include "moonpool/client.h"

namespace moonpool::python {

// Before a client is made. gRPC starts threads with the first one and cannot start them anew: in a
// child that was forked later a call would wait for ever, so there this raises.
void RequireThreadsOfGrpc();

// Calls `function` with each line, from any thread of the client. What it raises is reported as
// unraisable; in a forked child, and once the interpreter ends, it is not called.
std::function<void(absl::string_view)> WarningsTo(pybind11::object function);

// "auto", "tcp", "shm"; raises for anything else.
Path PathOf(const std::string& name);

}  // namespace moonpool::python
