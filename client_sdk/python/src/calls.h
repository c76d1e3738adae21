// The calls of moonpool.Client.
#pragma once

#include <pybind11/pybind11.h>

namespace moonpool::python {

// Adds them to the class.
void AddCalls(pybind11::handle client);

}  // namespace moonpool::python
