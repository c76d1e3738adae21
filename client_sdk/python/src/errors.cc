#include "client_sdk/python/src/errors.h"

#include <algorithm>
#include <array>
#include <string>

#include "client_sdk/python/src/gil.h"
#include "common/error.h"

namespace moonpool::python {

namespace py = pybind11;

namespace {

// Never destroyed: that would need the interpreter, which is gone by then.
const py::object* from_status = nullptr;

}  // namespace

void FindErrors() {
  from_status = new py::object(py::module_::import("moonpool._errors").attr("from_status"));
}

py::str TextOf(absl::string_view bytes) {
  PyObject* const text =
      PyUnicode_DecodeUTF8(bytes.data(), static_cast<Py_ssize_t>(bytes.size()), "backslashreplace");
  if (text == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::str>(text);
}

py::object ErrorOf(const absl::Status& status) {
  const ErrorDetail detail = DetailOf(status).value_or(ErrorDetail{});
  const absl::string_view reason =
      detail.reason == ErrorReason::kUnspecified ? "" : ReasonName(detail.reason);
  const std::array<py::object, 7> arguments = {
      TextOf(absl::StatusCodeToString(status.code())),
      TextOf(reason),
      TextOf(status.message()),
      TextOf(detail.hint),
      TextOf(detail.key),
      TextOf(detail.node),
      py::float_(absl::ToDoubleSeconds(detail.retry_after))};
  std::array<PyObject*, 7> borrowed;
  std::transform(arguments.begin(), arguments.end(), borrowed.begin(),
                 [](const py::object& argument) { return argument.ptr(); });
  PyObject* const error = InPython([&] {
    return PyObject_Vectorcall(from_status->ptr(), borrowed.data(), borrowed.size(), nullptr);
  });
  if (error == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(error);
}

void Raise(const absl::Status& status) {
  const py::object error = ErrorOf(status);
  PyErr_SetObject(py::type::handle_of(error).ptr(), error.ptr());
  throw py::error_already_set();
}

void RaiseInvalid(absl::string_view message, absl::string_view hint) {
  Raise(MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kBadArgument, message,
                  {.hint = std::string(hint)}));
}

}  // namespace moonpool::python
