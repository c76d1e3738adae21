// The class moonpool.Client but for its calls (calls.cc).
#include <memory>
#include <utility>

#include "client_sdk/python/src/calls.h"
#include "client_sdk/python/src/client.h"
#include "client_sdk/python/src/client_options.h"
#include "client_sdk/python/src/collector.h"
#include "client_sdk/python/src/docs.h"
#include "client_sdk/python/src/errors.h"
#include "client_sdk/python/src/keywords.h"
#include "client_sdk/python/src/method.h"
#include "client_sdk/python/src/results.h"

namespace moonpool::python {

namespace py = pybind11;

namespace {

py::dict StatsOf(const ClientStats& stats) {
  py::dict dict;
  dict["gets"] = stats.gets;
  dict["hits"] = stats.hits;
  dict["misses"] = stats.misses;
  dict["get_bytes"] = stats.get_bytes;
  dict["puts"] = stats.puts;
  dict["put_bytes"] = stats.put_bytes;
  dict["location_cache_hits"] = stats.location_cache_hits;
  dict["master_calls"] = stats.master_calls;
  dict["relocated"] = stats.relocated;
  dict["failovers"] = stats.failovers;
  dict["checksum_failures"] = stats.checksum_failures;
  return dict;
}

CancelToken TokenOf(const py::object& cancel) {
  if (cancel.is_none()) return {};
  if (py::isinstance<CancelSource>(cancel)) return cancel.cast<CancelSource&>().token();
  throw py::type_error("cancel is no CancelSource");
}

std::unique_ptr<PyClient> MakeClient(py::kwargs given) {
  Keywords keywords(std::move(given));
  ClientOptions options = TakeClientOptions(keywords);
  py::object on_warning = keywords.TakeCallable("on_warning");
  const py::object cancel = keywords.TakeObject("cancel");
  keywords.RequireNoMore();
  return std::make_unique<PyClient>(std::move(options), std::move(on_warning), TokenOf(cancel));
}

constexpr Parameters<0> kNone = {{}, 0, 0};
py::object Stats(const PyClient& client, const Arguments&) { return StatsOf(client.stats()); }

constexpr Parameters<3> kExit = {{"kind", "error", "trace"}, 3, 0};
py::object Close(PyClient& client, const Arguments&) {
  client.Close();
  return py::none();
}

py::object IsClosed(const PyClient& client) { return py::bool_(client.is_closed()); }
py::object NamespaceOf(const PyClient& client) { return TextOf(client.name_space()); }
py::object MastersOf(const PyClient& client) {
  const py::list masters = Each(client.masters(), TextOf);
  return py::reinterpret_steal<py::object>(InPython([&] { return PyList_AsTuple(masters.ptr()); }));
}

}  // namespace

void BindClient(py::module_& module) {
  py::class_<CancelSource>(module, "CancelSource", docs::kCancelSource)
      .def(py::init<>())
      .def("cancel", &CancelSource::Cancel, "Ends the calls that were given it; any thread.");
  BindResults(module);
  py::class_<PyClient> client(module, "Client", docs::kClient,
                              SeenByCollector<PyClient, &PyClient::on_warning>());
  // The arguments as people give them are put in order by moonpool/_client.py.
  client.def(py::init(&MakeClient));
  AddCalls(client);
  AddMethod<PyClient, Stats, kNone>(client, "stats", docs::kStats);
  AddMethod<PyClient, Close, kNone>(client, "close", docs::kClose);
  AddMethod<PyClient, Close, kExit>(client, "__exit__", "__exit__($self, *exc)\n--\n\nclose().");
  AddProperty<PyClient, IsClosed>(client, "closed", "True after close().");
  AddProperty<PyClient, NamespaceOf>(client, "namespace", "Its name.");
  AddProperty<PyClient, MastersOf>(client, "masters", "Those that were named.");
  client.def("__enter__", [](py::object self) { return self; });
}

}  // namespace moonpool::python
