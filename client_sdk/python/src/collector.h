// What C++ objects hold of Python's, for Python's collector: it sees only what is shown to it, and
// a cycle through what it does not see is for ever, threads and connections included.
#pragma once

#include <pybind11/pybind11.h>

#include <functional>
#include <utility>

namespace moonpool::python {

// nullptr while its __init__ has not run. Calls nothing of Python's, for the collector is running;
// a class with several C++ bases, which none of ours is, would be looked up in pybind11's tables.
template <typename Self>
Self* CollectedObjectOf(PyObject* self) {
  auto* const instance = reinterpret_cast<pybind11::detail::instance*>(self);
  if (!instance->simple_layout) return nullptr;
  const auto object = instance->get_value_and_holder();
  return object.holder_constructed() ? static_cast<Self*>(object.value_ptr()) : nullptr;
}

template <typename Self, auto kReference>
int Traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (Self* const object = CollectedObjectOf<Self>(self)) {
    Py_VISIT(std::invoke(kReference, *object).ptr());
  }
  return 0;
}

template <typename Self, auto kReference>
int Clear(PyObject* self) {
  if (Self* const object = CollectedObjectOf<Self>(self)) {
    // Goes at the end, when it is in its place no more: it may run code that looks.
    const pybind11::object held = std::exchange(std::invoke(kReference, *object), pybind11::none());
  }
  return 0;
}

// For py::class_<Self>: the collector sees the py::object that `kReference`, a member of Self's,
// gives. When it is part of garbage it becomes None.
template <typename Self, auto kReference>
pybind11::custom_type_setup SeenByCollector() {
  return pybind11::custom_type_setup([](PyHeapTypeObject* heap_type) {
    PyTypeObject& type = heap_type->ht_type;
    type.tp_flags |= Py_TPFLAGS_HAVE_GC;
    type.tp_traverse = Traverse<Self, kReference>;
    type.tp_clear = Clear<Self, kReference>;
    // Out of its sight before it is destroyed: that may give up the GIL.
    type.tp_dealloc = [](PyObject* self) {
      PyObject_GC_UnTrack(self);
      pybind11::detail::pybind11_object_dealloc(self);
    };
  });
}

}  // namespace moonpool::python
