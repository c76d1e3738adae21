// The extension module moonpool._native. moonpool/__init__.py is what people import.
#include <pybind11/pybind11.h>

#include "client_sdk/python/src/client.h"
#include "client_sdk/python/src/connector.h"
#include "client_sdk/python/src/errors.h"
#include "client_sdk/python/src/gil.h"
#include "client_sdk/python/src/memory.h"
#include "client_sdk/python/src/view.h"
#include "common/mutex_checks.h"

PYBIND11_MODULE(_native, module) {
  moonpool::KeepMutexChecksForDebugBuilds();
  moonpool::python::ForkCount();  // counts from here on
  moonpool::python::FindErrors();
  module.doc() = "The compiled half of the package moonpool; use that.";
  moonpool::python::BindMemory(module);
  moonpool::python::BindView(module);
  moonpool::python::BindClient(module);
  moonpool::python::BindConnector(module);
}
