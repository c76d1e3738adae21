// moonpool.View: bytes of an object in the pool itself.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>

#include "client_sdk/python/src/gil.h"
#include "moonpool/client.h"

namespace moonpool::python {

// The pin lasts as long as the Python view or one of the memoryviews that it gave: whoever holds
// bytes can read them. In a process that was forked meanwhile the pin is the parent's, and stays.
class PyView {
 public:
  explicit PyView(View view);

  pybind11::list Pieces() const;
  uint64_t nbytes() const;
  bool is_valid() const;
  void Release() { view_.reset(); }

 private:
  // InvalidArgument once it was released.
  const View& Held() const;

  std::shared_ptr<View> view_;
};

void BindView(pybind11::module_& module);

}  // namespace moonpool::python
