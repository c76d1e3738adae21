// moonpool._native.Connector; moonpool/lmcache is what LMCache is given.
#include <memory>
#include <utility>

#include "client_sdk/python/src/client_options.h"
#include "client_sdk/python/src/collector.h"
#include "client_sdk/python/src/connector.h"
#include "client_sdk/python/src/keywords.h"
#include "client_sdk/python/src/method.h"

namespace moonpool::python {

namespace py = pybind11;

namespace {

std::unique_ptr<Connector> MakeConnector(py::kwargs given) {
  Keywords keywords(std::move(given));
  ConnectorOptions options = {.client = TakeClientOptions(keywords)};
  keywords.TakeSeconds("store_timeout", &options.store_timeout);
  keywords.TakeSeconds("load_timeout", &options.load_timeout);
  keywords.Take("replicas", &options.replicas);
  keywords.Take("wait_for_space", &options.wait_for_space);
  py::object on_warning = keywords.TakeCallable("on_warning");
  keywords.RequireNoMore();
  return std::make_unique<Connector>(std::move(options), std::move(on_warning));
}

py::dict StatsOf(const Connector& connector) {
  const ClientStats stats = connector.stats();
  py::dict dict;
  dict["gets"] = stats.gets;
  dict["hits"] = stats.hits;
  dict["misses"] = stats.misses;
  dict["get_bytes"] = stats.get_bytes;
  dict["puts"] = stats.puts;
  dict["put_bytes"] = stats.put_bytes;
  dict["checksum_failures"] = stats.checksum_failures;
  return dict;
}

constexpr Parameters<2> kBatch = {{"keys", "views"}, 2, 2};
constexpr Parameters<1> kKeys = {{"keys"}, 1, 1};
constexpr Parameters<0> kNone = {{}, 0, 0};

py::object Set(Connector& connector, const Arguments& arguments) {
  return py::int_(connector.SubmitSet(arguments[0], arguments[1]));
}
py::object Get(Connector& connector, const Arguments& arguments) {
  return py::int_(connector.SubmitGet(arguments[0], arguments[1]));
}
py::object Exists(Connector& connector, const Arguments& arguments) {
  return py::int_(connector.SubmitExists(arguments[0]));
}
py::object Delete(Connector& connector, const Arguments& arguments) {
  return py::int_(connector.SubmitDelete(arguments[0]));
}
py::object Drain(Connector& connector, const Arguments&) { return connector.Drain(); }
py::object Stats(Connector& connector, const Arguments&) { return StatsOf(connector); }
py::object EventFd(Connector& connector, const Arguments&) {
  return py::int_(connector.event_fd());
}
py::object Wake(Connector& connector, const Arguments&) {
  connector.Wake();
  return py::none();
}
py::object Close(Connector& connector, const Arguments&) {
  connector.Close();
  return py::none();
}

}  // namespace

void BindConnector(py::module_& module) {
  const py::class_<Connector> connector =
      py::class_<Connector>(module, "Connector",
                            "Batches without waiting; moonpool.lmcache.Connector is the manual.",
                            SeenByCollector<Connector, &Connector::on_warning>())
          .def(py::init(&MakeConnector));
  AddMethod<Connector, Set, kBatch>(connector, "submit_batch_set",
                                    "submit_batch_set($self, keys, views)\n--\n\n");
  AddMethod<Connector, Get, kBatch>(connector, "submit_batch_get",
                                    "submit_batch_get($self, keys, views)\n--\n\n");
  AddMethod<Connector, Exists, kKeys>(connector, "submit_batch_exists",
                                      "submit_batch_exists($self, keys)\n--\n\n");
  AddMethod<Connector, Delete, kKeys>(connector, "submit_batch_delete",
                                      "submit_batch_delete($self, keys)\n--\n\n");
  AddMethod<Connector, Drain, kNone>(connector, "drain_completions",
                                     "drain_completions($self)\n--\n\n");
  AddMethod<Connector, EventFd, kNone>(connector, "event_fd", "event_fd($self)\n--\n\n");
  AddMethod<Connector, Wake, kNone>(connector, "wake", "wake($self)\n--\n\n");
  AddMethod<Connector, Stats, kNone>(connector, "stats", "stats($self)\n--\n\n");
  AddMethod<Connector, Close, kNone>(connector, "close", "close($self)\n--\n\n");
}

}  // namespace moonpool::python
