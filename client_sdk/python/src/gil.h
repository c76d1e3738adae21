// Work without the interpreter's lock (GIL), and what belongs to one process only.
#pragma once

#include <Python.h>
#include <cxxabi.h>

namespace moonpool::python {

// The interpreter is ending: whoever is not its last thread must not ask for the lock any more.
bool IsFinalizing();

// Never returns: for a thread that may not go on, since the interpreter is ending.
[[noreturn]] void Park();

// Runs `call`, a call of CPython's that may run Python code, if only a finalizer when something
// that the collector sees is made. Does not return once the interpreter is ending: CPython would
// end the thread by unwinding from there, and the frames above this, our own and pybind11's, would
// drop their references without the lock. So close around the call that nothing of C++'s is in
// between.
template <typename Call>
auto InPython(Call call) {
  try {
    return call();
  } catch (const abi::__forced_unwind&) {
    Park();
  }
}

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

// Runs `use` with the lock on a thread that does not hold it. False: there is no interpreter to
// talk to any more, and `use` did not run.
//
// The interpreter may end while this waits for the lock, or while `use` is in Python code. CPython
// then ends the thread, by unwinding it from there without the lock. So `use` throws nothing and
// has nothing whose destructor touches Python. A thread of Python's is parked: it holds what must
// stay, and nobody waits for it. One of the SDK's ends, frame by frame, for its client joins it.
template <typename Use>
bool WithGil(Use use) {
  if (Py_IsInitialized() == 0 || IsFinalizing()) return false;
  const bool is_pythons = PyGILState_GetThisThreadState() != nullptr;
  try {
    const PyGILState_STATE state = PyGILState_Ensure();
    use();
    PyGILState_Release(state);
    return true;
  } catch (const abi::__forced_unwind&) {
    if (is_pythons) Park();
    throw;
  }
}

// Counts the forks between the first process that asked and this one. What has threads and
// connections is of use only where the count is what it was when it was made.
int ForkCount();

}  // namespace moonpool::python
