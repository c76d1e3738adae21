// moonpool._native.Connector; moonpool/lmcache is what LMCache is given.
#include <pybind11/stl.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client_sdk/python/src/client_options.h"
#include "client_sdk/python/src/connector.h"
#include "client_sdk/python/src/errors.h"

namespace moonpool::python {

namespace py = pybind11;

namespace {

absl::Duration SecondsOf(const char* name, double seconds) {
  if (!(seconds > 0)) RaiseInvalid(absl::StrCat(name, " is not positive: ", seconds));
  return absl::Seconds(seconds);
}

std::unique_ptr<Connector> MakeConnector(std::vector<std::string> masters,
                                         const std::string& name_space,
                                         const std::string& fingerprint, const std::string& path,
                                         bool verify, double store_timeout, double load_timeout,
                                         bool wait_for_master, int tcp_streams, size_t threads,
                                         size_t queue, uint32_t replicas, bool wait_for_space,
                                         py::object on_warning) {
  ConnectorOptions options;
  options.client = {.masters = std::move(masters),
                    .name_space = name_space,
                    .fingerprint = fingerprint,
                    .path = PathOf(path),
                    .verify = verify,
                    .wait_for_master = wait_for_master,
                    .async_threads = threads,
                    .async_queue = queue,
                    .tcp_streams = tcp_streams,
                    .on_warning = WarningsTo(std::move(on_warning))};
  options.store_timeout = SecondsOf("store_timeout", store_timeout);
  options.load_timeout = SecondsOf("load_timeout", load_timeout);
  options.replicas = replicas;
  options.wait_for_space = wait_for_space;
  return std::make_unique<Connector>(options);
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

}  // namespace

void BindConnector(py::module_& module) {
  py::class_<Connector>(module, "Connector",
                        "Batches without waiting; moonpool.lmcache.Connector is the manual.")
      .def(py::init(&MakeConnector), py::kw_only(), py::arg("masters"), py::arg("namespace"),
           py::arg("fingerprint"), py::arg("path"), py::arg("verify"), py::arg("store_timeout"),
           py::arg("load_timeout"), py::arg("wait_for_master"), py::arg("tcp_streams"),
           py::arg("threads"), py::arg("queue"), py::arg("replicas"), py::arg("wait_for_space"),
           py::arg("on_warning"))
      .def("event_fd", &Connector::event_fd)
      .def("submit_batch_set", &Connector::SubmitSet, py::arg("keys"), py::arg("views"))
      .def("submit_batch_get", &Connector::SubmitGet, py::arg("keys"), py::arg("views"))
      .def("submit_batch_exists", &Connector::SubmitExists, py::arg("keys"))
      .def("submit_batch_delete", &Connector::SubmitDelete, py::arg("keys"))
      .def("drain_completions", &Connector::Drain)
      .def("stats", &StatsOf)
      .def("close", &Connector::Close);
}

}  // namespace moonpool::python
