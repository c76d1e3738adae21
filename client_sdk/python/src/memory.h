// Memory as Python objects with the buffer protocol: of others, by address, and of our own.
#pragma once

#include <pybind11/pybind11.h>

namespace moonpool::python {

// Adds Memory and HostBuffer to the module.
void BindMemory(pybind11::module_& module);

}  // namespace moonpool::python
