#include "client_sdk/python/src/buffers.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "client_sdk/python/src/errors.h"
#include "client_sdk/python/src/gil.h"
#include "common/error.h"

namespace moonpool::python {

namespace py = pybind11;

namespace {

std::string TypeName(py::handle object) { return Py_TYPE(object.ptr())->tp_name; }

py::object Attribute(py::handle object, const char* name) {
  PyObject* const value = InPython([&] { return PyObject_GetAttrString(object.ptr(), name); });
  if (value == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(value);
}

// Of a method without arguments.
py::object CallOf(py::handle object, const char* name) {
  const py::object method = Attribute(object, name);
  PyObject* const value = InPython([&] { return PyObject_CallNoArgs(method.ptr()); });
  if (value == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(value);
}

template <typename Span, typename Piece>
std::vector<Span> SpansOf(const std::vector<Piece>& pieces) {
  std::vector<Span> spans;
  spans.reserve(pieces.size());
  for (const Piece& piece : pieces) spans.emplace_back(piece.data, piece.size);
  return spans;
}

}  // namespace

std::string KeyOf(py::handle object) {
  if (PyUnicode_Check(object.ptr()) != 0) {
    Py_ssize_t size = 0;
    const char* const text = PyUnicode_AsUTF8AndSize(object.ptr(), &size);
    if (text == nullptr) throw py::error_already_set();
    return std::string(text, static_cast<size_t>(size));
  }
  if (PyBytes_Check(object.ptr()) != 0) {
    return std::string(PyBytes_AS_STRING(object.ptr()),
                       static_cast<size_t>(PyBytes_GET_SIZE(object.ptr())));
  }
  throw py::type_error(absl::StrCat("a key is str or bytes, not ", TypeName(object)));
}

Items::Items(py::handle object, const char* of) {
  if (PySequence_Check(object.ptr()) == 0 || PyUnicode_Check(object.ptr()) != 0 ||
      PyBytes_Check(object.ptr()) != 0) {
    throw py::type_error(absl::StrCat("expected a sequence of ", of, ", got ", TypeName(object)));
  }
  // A list may change while it is read.
  sequence_ = InPython([&] { return PySequence_Tuple(object.ptr()); });
  if (sequence_ == nullptr) throw py::error_already_set();
}

Items::~Items() {
  if (PyGILState_Check() != 0) InPython([&] { Py_DECREF(sequence_); });
}

std::vector<std::string> KeysOf(py::handle sequence) {
  const Items items(sequence, "keys");
  std::vector<std::string> keys;
  keys.reserve(items.size());
  for (size_t i = 0; i < items.size(); ++i) keys.push_back(KeyOf(items[i]));
  return keys;
}

BorrowedBuffers::~BorrowedBuffers() {
  if (PyGILState_Check() == 0) {  // the interpreter ends, and ends this thread with it
    for (py::object& tensor : tensors_) tensor.release();
    return;
  }
  for (Py_buffer& buffer : buffers_) InPython([&] { PyBuffer_Release(&buffer); });
}

std::vector<ConstBuffer> BorrowedBuffers::Readable(py::handle object) {
  std::vector<Bytes> pieces;
  Borrow(object, /*is_written=*/false, /*may_nest=*/true, &pieces);
  return SpansOf<ConstBuffer>(pieces);
}

std::vector<MutableBuffer> BorrowedBuffers::Writable(py::handle object) {
  std::vector<Bytes> pieces;
  Borrow(object, /*is_written=*/true, /*may_nest=*/true, &pieces);
  return SpansOf<MutableBuffer>(pieces);
}

void BorrowedBuffers::Borrow(py::handle object, bool is_written, bool may_nest,
                             std::vector<Bytes>* pieces) {
  if (PyObject_CheckBuffer(object.ptr()) != 0) {
    pieces->push_back(BorrowBuffer(object, is_written));
  } else if (InPython([&] { return PyObject_HasAttrString(object.ptr(), "data_ptr"); }) != 0) {
    pieces->push_back(BorrowTensor(object));
  } else if (may_nest && (PyList_Check(object.ptr()) != 0 || PyTuple_Check(object.ptr()) != 0)) {
    const Items items(object, "buffers");
    for (size_t i = 0; i < items.size(); ++i) {
      Borrow(items[i], is_written, /*may_nest=*/false, pieces);
    }
  } else {
    const bool is_text = PyUnicode_Check(object.ptr()) != 0;
    throw py::type_error(absl::StrCat(
        "expected bytes, a buffer, a torch tensor", may_nest ? ", or a list of these" : "",
        ", got ", TypeName(object), is_text ? "; encode text first: text.encode()" : ""));
  }
}

BorrowedBuffers::Bytes BorrowedBuffers::BorrowBuffer(py::handle object, bool is_written) {
  Py_buffer& buffer = buffers_.emplace_back();
  const int flags = is_written ? PyBUF_WRITABLE : PyBUF_SIMPLE;
  if (InPython([&] { return PyObject_GetBuffer(object.ptr(), &buffer, flags); }) != 0) {
    buffers_.pop_back();
    throw py::error_already_set();
  }
  return {static_cast<std::byte*>(buffer.buf), static_cast<size_t>(buffer.len)};
}

// By what torch.Tensor promises; no torch is imported for it.
BorrowedBuffers::Bytes BorrowedBuffers::BorrowTensor(py::handle object) {
  const auto device = Attribute(Attribute(object, "device"), "type").cast<std::string>();
  if (device != "cpu") {
    Raise(MakeError(absl::StatusCode::kFailedPrecondition, ErrorReason::kBadArgument,
                    absl::StrCat("the tensor is in memory of a ", device, " device"),
                    {.hint = "copy it to host memory first: tensor.cpu()"}));
  }
  if (!CallOf(object, "is_contiguous").cast<bool>()) {
    PyErr_SetString(PyExc_BufferError, "the tensor is not contiguous: pass tensor.contiguous()");
    throw py::error_already_set();
  }
  const auto address = CallOf(object, "data_ptr").cast<uintptr_t>();
  const auto items = CallOf(object, "numel").cast<size_t>();
  const auto item_bytes = CallOf(object, "element_size").cast<size_t>();
  tensors_.push_back(py::reinterpret_borrow<py::object>(object));
  return {reinterpret_cast<std::byte*>(address), items * item_bytes};
}

}  // namespace moonpool::python
