#include "client_sdk/python/src/view.h"

#include <utility>

#include "client_sdk/python/src/errors.h"
#include "client_sdk/python/src/results.h"

namespace moonpool::python {

namespace py = pybind11;

namespace {

struct Piece {
  std::shared_ptr<View> view;
  ConstBuffer bytes;
};

}  // namespace

PyView::PyView(View view)
    : view_(new View(std::move(view)), [forks = ForkCount()](View* held) {
        if (ForkCount() == forks) delete held;
      }) {}

const View& PyView::Held() const {
  if (view_ == nullptr) RaiseInvalid("the view was released", "read it before, or get it again");
  return *view_;
}

py::list PyView::Pieces() const {
  // Code of Python's may run in between (the collector's), and release this.
  const View& view = Held();
  const std::shared_ptr<View> held = view_;
  py::list pieces = NewList(0);
  for (const ConstBuffer& bytes : view.pieces()) {
    const py::object piece = py::cast(Piece{held, bytes});
    PyObject* const memory = InPython([&] { return PyMemoryView_FromObject(piece.ptr()); });
    if (memory == nullptr) throw py::error_already_set();
    pieces.append(py::reinterpret_steal<py::object>(memory));
  }
  return pieces;
}

uint64_t PyView::nbytes() const { return Held().size_bytes(); }

bool PyView::is_valid() const { return view_ != nullptr && view_->valid(); }

void BindView(py::module_& module) {
  py::class_<Piece>(module, "_Piece", py::buffer_protocol()).def_buffer([](Piece& piece) {
    auto* const data = reinterpret_cast<uint8_t*>(
        const_cast<std::byte*>(piece.bytes.data()));  // NOLINT: read-only
    return py::buffer_info(data, static_cast<py::ssize_t>(piece.bytes.size()), /*readonly=*/true);
  });
  py::class_<PyView>(module, "View",
                     "Read-only bytes of an object in the pool itself (same host): no copy. A "
                     "context manager.\n\nIts bytes cannot be evicted before it was released and "
                     "no memoryview of it is left, so keep it short. May outlive the client.")
      .def_property_readonly("pieces", &PyView::Pieces,
                             "One memoryview for each part, in the object's order; several when "
                             "the object is larger than a stripe or the pool was fragmented.")
      .def_property_readonly("nbytes", &PyView::nbytes, "Length of the object in bytes.")
      .def_property_readonly("valid", &PyView::is_valid,
                             "False once released, or once the node that owns the memory is gone: "
                             "what was read before this was true is right, what is read after may "
                             "not be.")
      .def("release", &PyView::Release, "Lets go of the bytes; again: nothing.")
      .def("__len__", &PyView::nbytes)
      .def("__enter__", [](py::object self) { return self; })
      .def("__exit__", [](PyView& view, const py::args&) { view.Release(); });
}

}  // namespace moonpool::python
