// Work without the interpreter's lock (GIL), and what belongs to one process only.
#pragma once

#include <Python.h>

#include <utility>

namespace moonpool::python {

// The interpreter is ending: whoever is not its last thread must not ask for the lock any more.
bool IsFinalizing();

// Takes the lock again on a thread of Python's that gave it up. Does not return once the
// interpreter is ending: CPython would end the thread by unwinding through our frames.
void TakeGilBack(PyThreadState* state);

// Runs `call`, which must touch no Python object, without the lock; all other threads run
// meanwhile. The interpreter's last thread keeps it: there are no others.
template <typename Call>
auto WithoutGil(Call call) {
  if (IsFinalizing()) return call();
  PyThreadState* const state = PyEval_SaveThread();
  try {
    auto result = call();
    TakeGilBack(state);
    return result;
  } catch (...) {
    TakeGilBack(state);
    throw;
  }
}

// On a thread of ours: takes the lock for its scope. `ok()` is false when there is no interpreter
// to talk to any more; then nothing of Python's may be touched.
class GilOnOurThread {
 public:
  GilOnOurThread() : ok_(Py_IsInitialized() != 0 && !IsFinalizing()) {
    if (ok_) state_ = PyGILState_Ensure();
  }
  ~GilOnOurThread() {
    if (ok_) PyGILState_Release(state_);
  }
  GilOnOurThread(const GilOnOurThread&) = delete;
  GilOnOurThread& operator=(const GilOnOurThread&) = delete;
  bool ok() const { return ok_; }

 private:
  const bool ok_;
  PyGILState_STATE state_ = {};
};

// Counts the forks between the first process that asked and this one. What has threads and
// connections is of use only where the count is what it was when it was made.
int ForkCount();

}  // namespace moonpool::python
