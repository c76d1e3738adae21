#include "client_sdk/python/src/buffers.h"

#include <cstdint>
#include <utility>

#include "absl/strings/match.h"
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

bool Has(py::handle object, const char* name) {
  return InPython([&] { return PyObject_HasAttrString(object.ptr(), name); }) != 0;
}

[[noreturn]] void RaiseBufferError(const std::string& message) {
  PyErr_SetString(PyExc_BufferError, message.c_str());
  throw py::error_already_set();
}

// Together they are an object, whose size has to be a number, too.
template <typename Span, typename Piece>
std::vector<Span> SpansOf(const std::vector<Piece>& pieces) {
  std::vector<Span> spans;
  spans.reserve(pieces.size());
  size_t total = 0;
  for (const Piece& piece : pieces) {
    if (piece.size > PTRDIFF_MAX - total) {
      RaiseInvalid("the sizes of the buffers add up to more than there can be");
    }
    total += piece.size;
    spans.emplace_back(piece.data, piece.size);
  }
  return spans;
}

// Whether items of this format (PEP 3118's, and what ctypes adds) are or have Python objects or
// pointers: what they point to is not stored with them, and who follows one that was written over
// crashes. Names of fields stand between colons; Zf, Zd and Zg are complex numbers.
bool HasPointers(absl::string_view format) {
  bool is_name = false;
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] == ':') is_name = !is_name;
    if (is_name) continue;
    if (absl::StrContains("O&PXz", format[i])) return true;
    const bool is_complex = i + 1 < format.size() && absl::StrContains("fdg", format[i + 1]);
    if (format[i] == 'Z' && !is_complex) return true;
  }
  return false;
}

bool GetBuffer(py::handle object, Py_buffer* buffer, int flags) {
  return InPython([&] { return PyObject_GetBuffer(object.ptr(), buffer, flags); }) == 0;
}

// numpy has no format for some of its types, and lends them without (dates, ml_dtypes' bfloat16).
bool HasObjects(py::handle array) {
  return Has(array, "dtype") && Has(Attribute(array, "dtype"), "hasobject") &&
         Attribute(Attribute(array, "dtype"), "hasobject").cast<bool>();
}

// Of a lazy view of torch's, whose values are not what is in memory.
void RequireNotLazy(py::handle tensor, bool is_written, const char* asked, const char* instead) {
  if (!Has(tensor, asked) || !CallOf(tensor, asked).cast<bool>()) return;
  RaiseBufferError(absl::StrCat("the tensor's values are not what is in memory (", asked, "()): ",
                                is_written ? "read into another, and copy that to it"
                                           : absl::StrCat("pass tensor.", instead, "()")));
}

// False of a tensor whose storage was never made (FakeTensorMode), or cut (resize_).
bool IsInMemory(py::handle tensor, uintptr_t address, size_t bytes) {
  if (bytes == 0) return true;
  if (address == 0) return false;
  if (!Has(tensor, "untyped_storage")) return true;  // torch 1
  const py::object storage = CallOf(tensor, "untyped_storage");
  const auto begin = CallOf(storage, "data_ptr").cast<uintptr_t>();
  const auto size = CallOf(storage, "nbytes").cast<size_t>();
  return begin <= address && bytes <= size && address - begin <= size - bytes;
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
  for (py::object& tensor : tensors_) InPython([&] { tensor.release().dec_ref(); });
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
  } else if (Has(object, "data_ptr")) {
    pieces->push_back(BorrowTensor(object, is_written));
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
  const int flags = is_written ? PyBUF_ND | PyBUF_WRITABLE : PyBUF_ND;
  bool has_pointers = false;
  if (GetBuffer(object, &buffer, flags | PyBUF_FORMAT)) {
    has_pointers = buffer.format != nullptr && HasPointers(buffer.format);
  } else {
    const bool is_refusal = PyErr_ExceptionMatches(PyExc_ValueError) != 0 ||
                            PyErr_ExceptionMatches(PyExc_BufferError) != 0;
    if (is_refusal) PyErr_Clear();
    if (!is_refusal || !GetBuffer(object, &buffer, flags)) {
      buffers_.pop_back();
      throw py::error_already_set();
    }
    has_pointers = HasObjects(object);
  }
  if (has_pointers) {
    RaiseBufferError(absl::StrCat("the ", TypeName(object),
                                  " has Python objects or pointers, which mean nothing elsewhere: "
                                  "pass the bytes of what they stand for"));
  }
  return {static_cast<std::byte*>(buffer.buf), static_cast<size_t>(buffer.len)};
}

// By what torch.Tensor promises; no torch is imported for it.
BorrowedBuffers::Bytes BorrowedBuffers::BorrowTensor(py::handle object, bool is_written) {
  const auto device = Attribute(Attribute(object, "device"), "type").cast<std::string>();
  if (device != "cpu") {
    Raise(MakeError(absl::StatusCode::kFailedPrecondition, ErrorReason::kBadArgument,
                    absl::StrCat("the tensor is in memory of a ", device, " device"),
                    {.hint = "copy it to host memory first: tensor.cpu()"}));
  }
  if (!CallOf(object, "is_contiguous").cast<bool>()) {
    RaiseBufferError(absl::StrCat(
        "the tensor is not contiguous: ",
        is_written ? "read into one that is, and copy that to it" : "pass tensor.contiguous()"));
  }
  RequireNotLazy(object, is_written, "is_conj", "resolve_conj");
  RequireNotLazy(object, is_written, "is_neg", "resolve_neg");
  const auto address = CallOf(object, "data_ptr").cast<uintptr_t>();
  const auto items = CallOf(object, "numel").cast<size_t>();
  const auto item_bytes = CallOf(object, "element_size").cast<size_t>();
  const bool is_number = item_bytes == 0 || items <= PTRDIFF_MAX / item_bytes;
  if (!is_number || !IsInMemory(object, address, items * item_bytes)) {
    RaiseBufferError("the tensor's memory is not there: it is a fake, or its storage was resized");
  }
  tensors_.push_back(py::reinterpret_borrow<py::object>(object));
  return {reinterpret_cast<std::byte*>(address), items * item_bytes};
}

}  // namespace moonpool::python
