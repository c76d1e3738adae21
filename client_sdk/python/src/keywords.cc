#include "client_sdk/python/src/keywords.h"

#include "client_sdk/python/src/buffers.h"
#include "client_sdk/python/src/errors.h"

namespace moonpool::python {

namespace py = pybind11;

namespace {

std::string TextOf(py::handle value, const char* name) {
  if (PyUnicode_Check(value.ptr()) != 0 || PyBytes_Check(value.ptr()) != 0) return KeyOf(value);
  throw py::type_error(absl::StrCat(name, " cannot be ", Py_TYPE(value.ptr())->tp_name));
}

}  // namespace

void Keywords::Take(const char* name, std::string* into) {
  if (const py::object value = Pop(name)) *into = TextOf(value, name);
}

void Keywords::Take(const char* name, std::vector<std::string>* into) {
  const py::object value = Pop(name);
  if (!value) return;
  const Items items(value, name);
  into->clear();
  for (size_t i = 0; i < items.size(); ++i) into->push_back(TextOf(items[i], name));
}

py::object Keywords::TakeCallable(const char* name) {
  py::object value = TakeObject(name);
  if (value.is_none() || PyCallable_Check(value.ptr()) != 0) return value;
  throw py::type_error(absl::StrCat(name, " cannot be ", Py_TYPE(value.ptr())->tp_name));
}

py::object Keywords::Pop(const char* name) {
  if (!given_.contains(name)) return {};
  return given_.attr("pop")(name);
}

void Keywords::TakeSeconds(const char* name, absl::Duration* into) {
  double seconds = absl::ToDoubleSeconds(*into);
  Take(name, &seconds);
  if (!(seconds > 0)) RaiseInvalid(absl::StrCat(name, " is not positive: ", seconds));
  *into = absl::Seconds(seconds);
}

py::object Keywords::TakeObject(const char* name) {
  py::object value = Pop(name);
  return value ? value : py::none();
}

void Keywords::RequireNoMore() const {
  for (const auto& [name, value] : given_) {
    throw py::type_error(
        absl::StrCat("unexpected keyword argument '", name.cast<std::string>(), "'"));
  }
}

}  // namespace moonpool::python
