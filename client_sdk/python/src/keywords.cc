#include "client_sdk/python/src/keywords.h"

#include <string>

#include "client_sdk/python/src/errors.h"

namespace moonpool::python {

namespace py = pybind11;

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
