// What calls give back that is more than a number.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <vector>

#include "client_sdk/python/src/gil.h"

namespace moonpool::python {

struct Match {
  size_t matched;
  std::vector<uint64_t> sizes;
  double held;
  pybind11::object miss;
};

// To be filled, each item once.
inline pybind11::list NewList(size_t size) {
  PyObject* const list = InPython([&] { return PyList_New(static_cast<Py_ssize_t>(size)); });
  if (list == nullptr) throw pybind11::error_already_set();
  return pybind11::reinterpret_steal<pybind11::list>(list);
}

// A list of what becomes of each.
template <typename Results, typename Outcome>
pybind11::list Each(const Results& results, Outcome outcome) {
  pybind11::list list = NewList(results.size());
  for (size_t i = 0; i < results.size(); ++i) list[i] = outcome(results[i]);
  return list;
}

// PrefixMatch, Description and KeyPage.
void BindResults(pybind11::module_& module);

}  // namespace moonpool::python
