#include "client_sdk/python/src/method.h"

#include <limits>

#include "absl/strings/str_cat.h"

namespace moonpool::python {

namespace py = pybind11;

namespace {

size_t IndexOf(const ParameterList& parameters, PyObject* name) {
  for (size_t i = 0; i < parameters.count; ++i) {
    if (PyUnicode_CompareWithASCIIString(name, parameters.names[i]) == 0) return i;
  }
  throw py::type_error(absl::StrCat("unexpected keyword argument '",
                                    py::reinterpret_borrow<py::str>(name).cast<std::string>(),
                                    "'"));
}

}  // namespace

bool Arguments::Bool(size_t index, bool otherwise) const {
  if (values_[index] == nullptr) return otherwise;
  const int is_true = InPython([&] { return PyObject_IsTrue(values_[index]); });
  if (is_true < 0) throw py::error_already_set();
  return is_true != 0;
}

uint32_t Arguments::Count(size_t index, uint32_t otherwise) const {
  if (values_[index] == nullptr) return otherwise;
  const auto value = InPython([&] { return PyLong_AsUnsignedLong(values_[index]); });
  if (PyErr_Occurred() != nullptr) throw py::error_already_set();
  if (value > std::numeric_limits<uint32_t>::max()) {
    PyErr_SetString(PyExc_OverflowError, "the number is too large");
    throw py::error_already_set();
  }
  return static_cast<uint32_t>(value);
}

double Arguments::Number(size_t index, double otherwise) const {
  if (values_[index] == nullptr) return otherwise;
  const double value = InPython([&] { return PyFloat_AsDouble(values_[index]); });
  if (value == -1.0 && PyErr_Occurred() != nullptr) throw py::error_already_set();
  return value;
}

void SortArguments(const ParameterList& parameters, PyObject* const* given, Py_ssize_t given_count,
                   PyObject* keywords, PyObject** values) {
  const auto by_position = static_cast<size_t>(given_count);
  if (by_position > parameters.positional) {
    throw py::type_error(absl::StrCat("takes ", parameters.positional, " positional arguments but ",
                                      by_position, " were given"));
  }
  for (size_t i = 0; i < by_position; ++i) values[i] = given[i];
  const Py_ssize_t by_name = keywords == nullptr ? 0 : PyTuple_GET_SIZE(keywords);
  for (Py_ssize_t i = 0; i < by_name; ++i) {
    const size_t index = IndexOf(parameters, PyTuple_GET_ITEM(keywords, i));
    if (index < by_position) {
      throw py::type_error(
          absl::StrCat("got multiple values for argument '", parameters.names[index], "'"));
    }
    values[index] = given[given_count + i];
  }
  for (size_t i = 0; i < parameters.count; ++i) {
    if (i < parameters.required) {
      if (values[i] == nullptr) {
        throw py::type_error(
            absl::StrCat("missing required argument: '", parameters.names[i], "'"));
      }
    } else if (values[i] == Py_None) {
      values[i] = nullptr;
    }
  }
}

void SetErrorOf(std::exception_ptr exception) {
  try {
    std::rethrow_exception(std::move(exception));
  } catch (py::error_already_set& error) {
    error.restore();
  } catch (const py::cast_error& error) {
    PyErr_SetString(PyExc_TypeError, error.what());
  } catch (const py::builtin_exception& error) {
    error.set_error();
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  } catch (...) {  // nothing passes into CPython's frames, which are C
    PyErr_SetString(PyExc_RuntimeError, "an exception of an unknown kind");
  }
}

void AddMethodTo(py::handle type, const char* name, PyCFunction function, const char* doc) {
  // For ever, as the type is.
  auto* const definition = new PyMethodDef{name, function, METH_FASTCALL | METH_KEYWORDS, doc};
  PyObject* const method =
      PyDescr_NewMethod(reinterpret_cast<PyTypeObject*>(type.ptr()), definition);
  if (method == nullptr) throw py::error_already_set();
  type.attr(name) = py::reinterpret_steal<py::object>(method);
}

void AddPropertyTo(py::handle type, const char* name, getter function, const char* doc) {
  auto* const definition = new PyGetSetDef{name, function, nullptr, doc, nullptr};
  PyObject* const property =
      PyDescr_NewGetSet(reinterpret_cast<PyTypeObject*>(type.ptr()), definition);
  if (property == nullptr) throw py::error_already_set();
  type.attr(name) = py::reinterpret_steal<py::object>(property);
}

}  // namespace moonpool::python
