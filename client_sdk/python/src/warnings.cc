#include "client_sdk/python/src/warnings.h"

#include <utility>

#include "client_sdk/python/src/gil.h"

namespace moonpool::python {

namespace py = pybind11;

namespace {

// As WithGil has it, plain references: when the interpreter ends in the middle, they are left.
void Tell(PyObject* function, absl::string_view line) {
  Py_INCREF(function);  // the collector may take it from its place meanwhile
  PyObject* const text =
      PyUnicode_DecodeUTF8(line.data(), static_cast<Py_ssize_t>(line.size()), "backslashreplace");
  PyObject* const result = text == nullptr ? nullptr : PyObject_CallOneArg(function, text);
  if (result == nullptr) PyErr_WriteUnraisable(function);
  Py_XDECREF(result);
  Py_XDECREF(text);
  Py_DECREF(function);
}

}  // namespace

Warnings::Warnings(py::object function)
    : function_(std::make_shared<py::object>(std::move(function))) {}

Warnings::~Warnings() { *function_ = py::object(); }

std::function<void(absl::string_view)> Warnings::Sink() const {
  return [function = function_, forks = ForkCount()](absl::string_view line) {
    if (ForkCount() != forks) return;
    WithGil([&] {
      if (*function && !function->is_none()) Tell(function->ptr(), line);
    });
  };
}

}  // namespace moonpool::python
