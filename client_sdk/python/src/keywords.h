// Keyword arguments of a constructor with more of them than C++ parameters are good for.
#pragma once

#include <pybind11/pybind11.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

namespace moonpool::python {

// Every option is taken once, by its name, and stays as it is when it was not given. All raise:
// TypeError for a value of another kind.
class Keywords {
 public:
  explicit Keywords(pybind11::kwargs given) : given_(std::move(given)) {}

  // Needs the caster of T (pybind11/stl.h).
  template <typename T>
  void Take(const char* name, T* into) {
    const pybind11::object value = Pop(name);
    if (!value) return;
    try {
      *into = value.cast<T>();
    } catch (const pybind11::cast_error&) {
      throw pybind11::type_error(absl::StrCat(name, " cannot be ", Py_TYPE(value.ptr())->tp_name));
    }
  }
  // UnicodeEncodeError for text that is no UTF-8.
  void Take(const char* name, std::string* into);
  // A sequence of texts.
  void Take(const char* name, std::vector<std::string>* into);
  // InvalidArgument where it is not positive.
  void TakeSeconds(const char* name, absl::Duration* into);
  // None where it was not given.
  pybind11::object TakeObject(const char* name);
  // A function, or None.
  pybind11::object TakeCallable(const char* name);

  // TypeError when there is one that was not taken.
  void RequireNoMore() const;

 private:
  pybind11::object Pop(const char* name);

  pybind11::kwargs given_;  // what was not taken yet
};

}  // namespace moonpool::python
