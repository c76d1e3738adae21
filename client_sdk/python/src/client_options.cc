#include "client_sdk/python/src/client_options.h"

#include <cxxabi.h>

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client_sdk/python/src/errors.h"
#include "client_sdk/python/src/gil.h"
#include "common/error.h"

namespace moonpool::python {

namespace py = pybind11;

void RequireThreadsOfGrpc() {
  static const int forks_at_first = ForkCount();
  if (ForkCount() == forks_at_first) return;
  Raise(MakeError(absl::StatusCode::kFailedPrecondition, ErrorReason::kBadArgument,
                  "this process was forked from one that had made a client",
                  {.hint = "make clients after the fork alone, or start processes with "
                           "multiprocessing's \"spawn\""}));
}

// Python's object goes with the GIL, or not at all.
std::function<void(absl::string_view)> WarningsTo(py::object function) {
  const std::shared_ptr<py::object> target(new py::object(std::move(function)),
                                           [](py::object* object) {
                                             const GilOnOurThread gil;
                                             if (gil.ok()) delete object;
                                           });
  return [target, forks = ForkCount()](absl::string_view line) {
    if (ForkCount() != forks) return;
    const GilOnOurThread gil;
    if (!gil.ok()) return;
    try {
      (*target)(TextOf(line));
    } catch (const abi::__forced_unwind&) {
      Park();  // the interpreter ends
    } catch (py::error_already_set& error) {
      error.discard_as_unraisable("on_warning of moonpool.Client");
    }
  };
}

Path PathOf(const std::string& name) {
  if (name == "auto") return Path::kAuto;
  if (name == "tcp") return Path::kTcp;
  if (name == "shm") return Path::kShm;
  RaiseInvalid(absl::StrCat("path is \"", name, "\""), "auto, tcp or shm");
}

}  // namespace moonpool::python
