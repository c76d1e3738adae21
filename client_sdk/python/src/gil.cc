#include "client_sdk/python/src/gil.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>

namespace moonpool::python {
namespace {

std::atomic<int> fork_count = 0;

}  // namespace

bool IsFinalizing() {
#if PY_VERSION_HEX >= 0x030D0000
  return Py_IsFinalizing() != 0;
#else
  return _Py_IsFinalizing() != 0;
#endif
}

void Park() {
  while (true) pause();
}

void TakeGilBack(PyThreadState* state) {
  if (IsFinalizing()) Park();
  InPython([&] { PyEval_RestoreThread(state); });
}

int ForkCount() {
  static const int registered = pthread_atfork(nullptr, nullptr, [] { ++fork_count; });
  (void)registered;
  return fork_count.load(std::memory_order_relaxed);
}

}  // namespace moonpool::python
