#include "client_sdk/python/src/results.h"

#include <pybind11/stl.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "client_sdk/python/src/collector.h"
#include "client_sdk/python/src/docs.h"
#include "moonpool/client.h"

namespace moonpool::python {

namespace py = pybind11;

namespace {

py::list SizesOf(const Match& match) {
  return Each(match.sizes, [](uint64_t size) { return py::int_(size); });
}

// As str, which is the same key as its UTF-8; what is no UTF-8 stays bytes.
py::object KeyToPython(const std::string& key) {
  PyObject* const text =
      PyUnicode_DecodeUTF8(key.data(), static_cast<Py_ssize_t>(key.size()), nullptr);
  if (text != nullptr) return py::reinterpret_steal<py::object>(text);
  PyErr_Clear();
  return py::bytes(key);
}

void BindLookResults(py::module_& module) {
  py::class_<Description>(module, "Description", docs::kDescription)
      .def_readonly("nbytes", &Description::size_bytes, "Length of the object in bytes.")
      .def_readonly("replicas", &Description::replicas,
                    "Of each replica that can be read now the names of the nodes that hold its "
                    "parts, in the object's order.")
      .def("__repr__", [](const Description& description) {
        return absl::StrCat("Description(nbytes=", description.size_bytes,
                            ", replicas=", description.replicas.size(), ")");
      });
  py::class_<KeyPage>(module, "KeyPage", docs::kKeyPage)
      .def_property_readonly(
          "keys", [](const KeyPage& page) { return Each(page.keys, KeyToPython); },
          "str, or bytes where a key is no UTF-8; in no order.")
      .def_readonly("next", &KeyPage::next, "For `after`; \"\" when there are no more.");
}

void BindMatch(py::module_& module) {
  py::class_<Match>(module, "PrefixMatch", docs::kPrefixMatch,
                    SeenByCollector<Match, &Match::miss>())
      .def_readonly("matched", &Match::matched, "Leading keys that are readable now.")
      .def_property_readonly("sizes", &SizesOf, "Bytes of each matched object.")
      .def_readonly("held", &Match::held, "Seconds of the lease, counted from the call.")
      .def_readonly("miss", &Match::miss, "Why the next key missed; None when all matched.")
      .def("__repr__", [](const Match& match) {
        return absl::StrCat("PrefixMatch(matched=", match.matched, ")");
      });
}

}  // namespace

void BindResults(py::module_& module) {
  BindMatch(module);
  BindLookResults(module);
}

}  // namespace moonpool::python
