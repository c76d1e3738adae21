#include "client_sdk/python/src/errors.h"

#include <string>

#include "common/error.h"

namespace moonpool::python {

namespace py = pybind11;

namespace {

// Kept for ever: destroyed with the module's statics it would need an interpreter that is gone.
const py::object& FromStatus() {
  static const auto* const function =
      new py::object(py::module_::import("moonpool._errors").attr("from_status"));
  return *function;
}

}  // namespace

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
  return FromStatus()(TextOf(absl::StatusCodeToString(status.code())), TextOf(reason),
                      TextOf(status.message()), TextOf(detail.hint), TextOf(detail.key),
                      TextOf(detail.node), absl::ToDoubleSeconds(detail.retry_after));
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
