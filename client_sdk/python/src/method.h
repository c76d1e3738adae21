// Methods of a Python class as CPython calls them fastest: arguments in an array, no tuple, no
// dict. pybind11's own dispatch costs about as much as a small read.
//
//   py::object Get(PyClient& client, const Arguments& arguments);
//   constexpr Parameters<3> kGet = {{"key", "verify", "timeout"}, /*positional=*/1,
//   /*required=*/1}; AddMethod<PyClient, Get, kGet>(type, "get", "get(key, *, verify=None,
//   timeout=None)\n--\n\n...");
#pragma once

#include <cxxabi.h>
#include <pybind11/pybind11.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>

#include "client_sdk/python/src/gil.h"

namespace moonpool::python {

// Borrowed; an argument that was not given, or is None, is nullptr. All methods raise TypeError or
// OverflowError for a value of another kind.
class Arguments {
 public:
  explicit Arguments(PyObject* const* values) : values_(values) {}

  pybind11::handle operator[](size_t index) const { return values_[index]; }
  bool Bool(size_t index, bool otherwise) const;
  uint32_t Count(size_t index, uint32_t otherwise) const;
  double Number(size_t index, double otherwise) const;

 private:
  PyObject* const* const values_;
};

// The names in order; the first `positional` may be given by position, the first `required` must be
// given.
template <size_t kCount>
struct Parameters {
  std::array<const char*, kCount> names;
  size_t positional;
  size_t required;
};

// What Parameters is to code that is no template.
struct ParameterList {
  const char* const* names;
  size_t count;
  size_t positional;
  size_t required;
};

// Sorts what CPython gives into `values`, one for each name. TypeError, with CPython's own words.
void SortArguments(const ParameterList& parameters, PyObject* const* given, Py_ssize_t given_count,
                   PyObject* keywords, PyObject** values);

// The C++ object of `self`, whose type CPython has checked. TypeError when its __init__ did not
// run.
template <typename Self>
Self& ObjectOf(PyObject* self) {
  auto* const instance = reinterpret_cast<pybind11::detail::instance*>(self);
  // Of a class with one C++ base, and of Python's subclasses of it, it is the first; a cast would
  // look the type up in pybind11's tables.
  const auto object = instance->simple_layout
                          ? instance->get_value_and_holder()
                          : instance->get_value_and_holder(
                                pybind11::detail::get_type_info(typeid(Self), /*throw=*/true));
  if (!object.holder_constructed()) throw pybind11::type_error("__init__() was not called");
  return *static_cast<Self*>(object.value_ptr());
}

// Sets Python's error for the exception that is being handled.
void SetErrorOf(std::exception_ptr exception);

// The border between CPython and C++: what `call` returns, or its exception as Python's error.
template <typename Call>
PyObject* AtBorder(Call call) {
  try {
    return call().release().ptr();
  } catch (const abi::__forced_unwind&) {
    Park();  // InPython stands around what may run Python code; this, for what it was forgotten at
  } catch (...) {
    SetErrorOf(std::current_exception());
    return nullptr;
  }
}

template <typename Self, auto kFunction, const auto& kParameters>
PyObject* CallMethod(PyObject* self, PyObject* const* given, Py_ssize_t given_count,
                     PyObject* keywords) {
  std::array<PyObject*, kParameters.names.size()> values = {};
  return AtBorder([&] {
    SortArguments({kParameters.names.data(), kParameters.names.size(), kParameters.positional,
                   kParameters.required},
                  given, PyVectorcall_NARGS(static_cast<size_t>(given_count)), keywords,
                  values.data());
    return kFunction(ObjectOf<Self>(self), Arguments(values.data()));
  });
}

template <typename Self, auto kFunction>
PyObject* GetProperty(PyObject* self, void*) {
  return AtBorder([&] { return kFunction(ObjectOf<Self>(self)); });
}

// `doc` begins with the signature and "\n--\n\n", from which inspect.signature has it. Both strings
// live for ever.
void AddMethodTo(pybind11::handle type, const char* name, PyCFunction function, const char* doc);
void AddPropertyTo(pybind11::handle type, const char* name, getter function, const char* doc);

template <typename Self, auto kFunction, const auto& kParameters>
void AddMethod(pybind11::handle type, const char* name, const char* doc) {
  AddMethodTo(type, name,
              reinterpret_cast<PyCFunction>(
                  reinterpret_cast<void*>(&CallMethod<Self, kFunction, kParameters>)),
              doc);
}

// Read-only: kFunction(Self&).
template <typename Self, auto kFunction>
void AddProperty(pybind11::handle type, const char* name, const char* doc) {
  AddPropertyTo(type, name, &GetProperty<Self, kFunction>, doc);
}

}  // namespace moonpool::python
