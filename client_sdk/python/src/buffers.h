// Python objects as bytes, without a copy.
#pragma once

#include <pybind11/pybind11.h>

#include <deque>
#include <string>
#include <vector>

#include "moonpool/client.h"

namespace moonpool::python {

// A key: str, as UTF-8, or bytes. TypeError for anything else.
std::string KeyOf(pybind11::handle object);
std::vector<std::string> KeysOf(pybind11::handle sequence);

// The items of a sequence, read once: what iterates may be Python code of others, and so take any
// time, or be the last thing that its thread does (method.h).
class Items {
 public:
  // TypeError for what is no sequence `of` something; of text, too, whose items would be letters.
  Items(pybind11::handle object, const char* of);
  ~Items();
  Items(const Items&) = delete;
  Items& operator=(const Items&) = delete;

  size_t size() const { return static_cast<size_t>(PyTuple_GET_SIZE(sequence_)); }
  pybind11::handle operator[](size_t index) const {
    return PyTuple_GET_ITEM(sequence_, static_cast<Py_ssize_t>(index));
  }

 private:
  PyObject* sequence_ = nullptr;
};

// What Python objects lend for one call. Bytes stay where they are, and alive, until this is
// destroyed; made, filled and destroyed with the GIL, and not used after a failure (which raises).
//
// An object is: anything with the buffer protocol, in C order (numpy arrays, bytes, memoryview,
// moonpool.Memory); a torch tensor, contiguous, in host memory; or a list or tuple of these, which
// is their concatenation. TypeError for anything else, BufferError for what cannot be lent (not
// contiguous, read-only and to be written, memory that is not there) or is not the value (objects,
// pointers, lazy views of torch's), FailedPrecondition for device memory, InvalidArgument for more
// than there can be.
class BorrowedBuffers {
 public:
  BorrowedBuffers() = default;
  ~BorrowedBuffers();
  BorrowedBuffers(const BorrowedBuffers&) = delete;
  BorrowedBuffers& operator=(const BorrowedBuffers&) = delete;

  std::vector<ConstBuffer> Readable(pybind11::handle object);
  std::vector<MutableBuffer> Writable(pybind11::handle object);

 private:
  struct Bytes {
    std::byte* data = nullptr;
    size_t size = 0;
  };
  // Appends to `pieces`.
  void Borrow(pybind11::handle object, bool is_written, bool may_nest, std::vector<Bytes>* pieces);
  Bytes BorrowBuffer(pybind11::handle object, bool is_written);
  Bytes BorrowTensor(pybind11::handle object, bool is_written);

  std::deque<Py_buffer> buffers_;  // stays in place: exporters may point into it
  std::vector<pybind11::object> tensors_;
};

}  // namespace moonpool::python
