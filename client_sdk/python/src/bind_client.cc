// The methods of moonpool.Client: names, defaults and docstrings.
#include <pybind11/stl.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client_sdk/python/src/buffers.h"
#include "client_sdk/python/src/client.h"
#include "client_sdk/python/src/docs.h"
#include "client_sdk/python/src/errors.h"

namespace moonpool::python {

namespace py = pybind11;

namespace {

CallOptions CallOf(const py::object& timeout, const CancelSource* cancel) {
  CallOptions call;
  if (!timeout.is_none()) {
    const double seconds = timeout.cast<double>();
    if (!(seconds > 0)) RaiseInvalid(absl::StrCat("timeout is not positive: ", seconds));
    call.timeout = absl::Seconds(seconds);
  }
  if (cancel != nullptr) call.cancel = cancel->token();
  return call;
}

GetOptions GetOf(const py::object& verify, const py::object& timeout, const CancelSource* cancel) {
  return {.call = CallOf(timeout, cancel), .verify = verify.is_none() || verify.cast<bool>()};
}

void RequireAsMany(const char* what, size_t count, size_t keys) {
  if (count == keys) return;
  RaiseInvalid(absl::StrCat(keys, " keys, but ", count, " ", what));
}

// True: stored. False: it was there before.
py::object PutOutcome(const absl::Status& status) {
  if (status.ok()) return py::bool_(true);
  if (absl::IsAlreadyExists(status)) return py::bool_(false);
  return ErrorOf(status);
}
// True: done. False: there is no such key.
py::object KeyOutcome(const absl::Status& status) {
  if (status.ok()) return py::bool_(true);
  if (absl::IsNotFound(status)) return py::bool_(false);
  return ErrorOf(status);
}

template <typename Results, typename Outcome>
py::list Each(const Results& results, Outcome outcome) {
  py::list list(results.size());
  for (size_t i = 0; i < results.size(); ++i) list[i] = outcome(results[i]);
  return list;
}

// The only outcome, raised when it is an error.
py::object Only(py::object outcome) {
  if (PyExceptionInstance_Check(outcome.ptr()) == 0) return outcome;
  PyErr_SetObject(py::type::handle_of(outcome).ptr(), outcome.ptr());
  throw py::error_already_set();
}

struct PutArguments {
  uint32_t replicas;
  uint32_t min_replicas;
  bool wait_for_space;
  bool wait_for_writer;

  PutOptions Options(CallOptions call) const {
    return {.call = std::move(call),
            .replicas = replicas,
            .min_replicas = min_replicas,
            .wait_for_space = wait_for_space,
            .wait_for_writer = wait_for_writer};
  }
};

py::object Put(const PyClient& client, py::handle key, py::handle value, py::handle parent,
               uint32_t replicas, uint32_t min_replicas, bool wait_for_space, bool wait_for_writer,
               const py::object& timeout, const CancelSource* cancel) {
  BorrowedBuffers buffers;
  std::vector<PutItem> items(1);
  items[0] = {.key = KeyOf(key), .value = buffers.Readable(value), .parent = KeyOf(parent)};
  const PutArguments put = {replicas, min_replicas, wait_for_space, wait_for_writer};
  return Only(
      PutOutcome(client.PutMany(std::move(items), put.Options(CallOf(timeout, cancel))).front()));
}

py::list PutMany(const PyClient& client, py::handle keys, const py::sequence& values,
                 const py::object& parents, uint32_t replicas, uint32_t min_replicas,
                 bool wait_for_space, bool wait_for_writer, const py::object& timeout,
                 const CancelSource* cancel) {
  BorrowedBuffers buffers;
  std::vector<std::string> names = KeysOf(keys);
  RequireAsMany("values", values.size(), names.size());
  std::vector<PutItem> items(names.size());
  for (size_t i = 0; i < items.size(); ++i) {
    items[i].key = std::move(names[i]);
    items[i].value = buffers.Readable(values[i]);
  }
  if (!parents.is_none()) {
    std::vector<std::string> before = KeysOf(parents);
    RequireAsMany("parents", before.size(), items.size());
    for (size_t i = 0; i < items.size(); ++i) items[i].parent = std::move(before[i]);
  }
  const PutArguments put = {replicas, min_replicas, wait_for_space, wait_for_writer};
  return Each(client.PutMany(std::move(items), put.Options(CallOf(timeout, cancel))), PutOutcome);
}

py::object BytesRead(const absl::StatusOr<size_t>& result) {
  return result.ok() ? py::int_(*result) : ErrorOf(result.status());
}

py::object GetInto(const PyClient& client, py::handle key, py::handle target,
                   const py::object& verify, const py::object& timeout,
                   const CancelSource* cancel) {
  BorrowedBuffers buffers;
  std::vector<GetItem> items(1);
  items[0] = {.key = KeyOf(key), .into = buffers.Writable(target)};
  return Only(BytesRead(client.GetInto(items, GetOf(verify, timeout, cancel)).front()));
}

py::list GetIntoMany(const PyClient& client, py::handle keys, const py::sequence& targets,
                     const py::object& verify, const py::object& timeout,
                     const CancelSource* cancel) {
  BorrowedBuffers buffers;
  std::vector<std::string> names = KeysOf(keys);
  RequireAsMany("targets", targets.size(), names.size());
  std::vector<GetItem> items(names.size());
  for (size_t i = 0; i < items.size(); ++i) {
    items[i].key = std::move(names[i]);
    items[i].into = buffers.Writable(targets[i]);
  }
  return Each(client.GetInto(items, GetOf(verify, timeout, cancel)), BytesRead);
}

py::list GetViewMany(const PyClient& client, const std::vector<std::string>& keys,
                     const GetOptions& options) {
  std::vector<absl::StatusOr<View>> views = client.GetViews(keys, options);
  py::list list(views.size());
  for (size_t i = 0; i < views.size(); ++i) {
    list[i] = views[i].ok() ? py::cast(std::make_unique<PyView>(*std::move(views[i])))
                            : ErrorOf(views[i].status());
  }
  return list;
}

struct Match {
  size_t matched;
  std::vector<uint64_t> sizes;
  double held;
  py::object miss;
};

Match MatchPrefix(const PyClient& client, py::handle keys, double hold, const py::object& timeout,
                  const CancelSource* cancel) {
  if (!(hold >= 0)) RaiseInvalid(absl::StrCat("hold is negative: ", hold));
  absl::StatusOr<PrefixMatch> match = client.MatchPrefix(
      KeysOf(keys), {.call = CallOf(timeout, cancel), .hold = absl::Seconds(hold)});
  RaiseIfError(match.status());
  return {match->matched, std::move(match->sizes), absl::ToDoubleSeconds(match->held),
          match->miss.ok() ? py::none() : ErrorOf(match->miss)};
}

py::list SizesOf(const Match& match) {
  return Each(match.sizes, [](uint64_t size) { return py::int_(size); });
}

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

// From any thread of the client. Python's object goes with the GIL, or not at all.
std::function<void(absl::string_view)> WarningsTo(py::object function) {
  const std::shared_ptr<py::object> target(new py::object(std::move(function)),
                                           [](py::object* object) {
                                             const GilOnOurThread gil;
                                             if (gil.ok()) delete object;
                                           });
  return [target, forks = ForkCount()](absl::string_view line) {
    if (ForkCount() != forks) return;
    const GilOnOurThread gil;
    if (!gil.ok()) return;
    try {
      (*target)(TextOf(line));
    } catch (py::error_already_set& error) {
      error.discard_as_unraisable("on_warning of moonpool.Client");
    }
  };
}

Path PathOf(const std::string& name) {
  if (name == "auto") return Path::kAuto;
  if (name == "tcp") return Path::kTcp;
  if (name == "shm") return Path::kShm;
  RaiseInvalid(absl::StrCat("path is \"", name, "\""), "auto, tcp or shm");
}

std::unique_ptr<PyClient> MakeClient(std::vector<std::string> masters,
                                     const std::string& name_space, const std::string& fingerprint,
                                     const std::string& path, bool verify, double timeout,
                                     bool wait_for_master, int tcp_streams,
                                     const std::string& host_id, std::vector<uint32_t> trusted_uids,
                                     size_t location_cache_entries, py::object on_warning) {
  if (!(timeout > 0)) RaiseInvalid(absl::StrCat("timeout is not positive: ", timeout));
  ClientOptions options = {.masters = std::move(masters),
                           .name_space = name_space,
                           .fingerprint = fingerprint,
                           .path = PathOf(path),
                           .verify = verify,
                           .timeout = absl::Seconds(timeout),
                           .wait_for_master = wait_for_master,
                           .location_cache_entries = location_cache_entries,
                           .tcp_streams = tcp_streams,
                           .host_id = host_id,
                           .trusted_uids = std::move(trusted_uids),
                           .on_warning = WarningsTo(std::move(on_warning))};
  return std::make_unique<PyClient>(std::move(options));
}

using Class = py::class_<PyClient>;

// What stands last in every signature.
#define MP_LIMITS py::arg("timeout") = py::none(), py::arg("cancel") = py::none()
#define MP_PUT_OPTIONS                                                                    \
  py::arg("replicas") = 1, py::arg("min_replicas") = 0, py::arg("wait_for_space") = true, \
  py::arg("wait_for_writer") = false, MP_LIMITS

void BindPuts(Class& client) {
  client.def("put", &Put, docs::kPut, py::arg("key"), py::arg("value"), py::kw_only(),
             py::arg("parent") = py::str(""), MP_PUT_OPTIONS);
  client.def("put_many", &PutMany, docs::kPutMany, py::arg("keys"), py::arg("values"),
             py::kw_only(), py::arg("parents") = py::none(), MP_PUT_OPTIONS);
}

void BindGets(Class& client) {
  client.def(
      "get",
      [](const PyClient& self, py::handle key, const py::object& verify, const py::object& timeout,
         const CancelSource* cancel) {
        return Only(self.Get({KeyOf(key)}, GetOf(verify, timeout, cancel))[0]);
      },
      docs::kGet, py::arg("key"), py::kw_only(), py::arg("verify") = py::none(), MP_LIMITS);
  client.def(
      "get_many",
      [](const PyClient& self, py::handle keys, const py::object& verify, const py::object& timeout,
         const CancelSource* cancel) {
        return self.Get(KeysOf(keys), GetOf(verify, timeout, cancel));
      },
      docs::kGetMany, py::arg("keys"), py::kw_only(), py::arg("verify") = py::none(), MP_LIMITS);
  client.def("get_into", &GetInto, docs::kGetInto, py::arg("key"), py::arg("target"), py::kw_only(),
             py::arg("verify") = py::none(), MP_LIMITS);
  client.def("get_into_many", &GetIntoMany, docs::kGetIntoMany, py::arg("keys"), py::arg("targets"),
             py::kw_only(), py::arg("verify") = py::none(), MP_LIMITS);
  client.def(
      "get_view",
      [](const PyClient& self, py::handle key, const py::object& verify, const py::object& timeout,
         const CancelSource* cancel) {
        return Only(GetViewMany(self, {KeyOf(key)}, GetOf(verify, timeout, cancel))[0]);
      },
      docs::kGetView, py::arg("key"), py::kw_only(), py::arg("verify") = py::none(), MP_LIMITS);
  client.def(
      "get_view_many",
      [](const PyClient& self, py::handle keys, const py::object& verify, const py::object& timeout,
         const CancelSource* cancel) {
        return GetViewMany(self, KeysOf(keys), GetOf(verify, timeout, cancel));
      },
      docs::kGetViewMany, py::arg("keys"), py::kw_only(), py::arg("verify") = py::none(),
      MP_LIMITS);
}

void BindQueries(Class& client) {
  client.def(
      "exists",
      [](const PyClient& self, py::handle key, const py::object& timeout,
         const CancelSource* cancel) {
        return Only(KeyOutcome(self.Exists({KeyOf(key)}, CallOf(timeout, cancel)).front()));
      },
      docs::kExists, py::arg("key"), py::kw_only(), MP_LIMITS);
  client.def(
      "exists_many",
      [](const PyClient& self, py::handle keys, const py::object& timeout,
         const CancelSource* cancel) {
        return Each(self.Exists(KeysOf(keys), CallOf(timeout, cancel)), KeyOutcome);
      },
      docs::kExistsMany, py::arg("keys"), py::kw_only(), MP_LIMITS);
  client.def("match_prefix", &MatchPrefix, docs::kMatchPrefix, py::arg("keys"), py::kw_only(),
             py::arg("hold") = 0.0, MP_LIMITS);
  client.def(
      "remove",
      [](const PyClient& self, py::handle key, const py::object& timeout,
         const CancelSource* cancel) {
        return Only(KeyOutcome(self.Remove({KeyOf(key)}, CallOf(timeout, cancel)).front()));
      },
      docs::kRemove, py::arg("key"), py::kw_only(), MP_LIMITS);
  client.def(
      "remove_many",
      [](const PyClient& self, py::handle keys, const py::object& timeout,
         const CancelSource* cancel) {
        return Each(self.Remove(KeysOf(keys), CallOf(timeout, cancel)), KeyOutcome);
      },
      docs::kRemoveMany, py::arg("keys"), py::kw_only(), MP_LIMITS);
}

void BindMatch(py::module_& module) {
  py::class_<Match>(module, "PrefixMatch", docs::kPrefixMatch)
      .def_readonly("matched", &Match::matched, "Leading keys that are readable now.")
      .def_property_readonly("sizes", &SizesOf, "Bytes of each matched object.")
      .def_readonly("held", &Match::held, "Seconds of the lease, counted from the call.")
      .def_readonly("miss", &Match::miss, "Why the next key missed; None when all matched.")
      .def("__repr__", [](const Match& match) {
        return absl::StrCat("PrefixMatch(matched=", match.matched, ")");
      });
}

}  // namespace

void BindClient(py::module_& module) {
  py::class_<CancelSource>(module, "CancelSource", docs::kCancelSource)
      .def(py::init<>())
      .def("cancel", &CancelSource::Cancel, "Ends the calls that were given it; any thread.");
  BindMatch(module);
  Class client(module, "Client", docs::kClient);
  // The arguments as people give them are put in order by moonpool/_client.py.
  client.def(py::init(&MakeClient), py::kw_only(), py::arg("masters"), py::arg("namespace"),
             py::arg("fingerprint"), py::arg("path"), py::arg("verify"), py::arg("timeout"),
             py::arg("wait_for_master"), py::arg("tcp_streams"), py::arg("host_id"),
             py::arg("trusted_uids"), py::arg("location_cache_entries"), py::arg("on_warning"));
  BindPuts(client);
  BindGets(client);
  BindQueries(client);
  client.def(
      "stats", [](const PyClient& self) { return StatsOf(self.stats()); }, docs::kStats);
  client.def("close", &PyClient::Close, docs::kClose);
  client.def_property_readonly("closed", &PyClient::is_closed, "True after close().");
  client.def_property_readonly("namespace", &PyClient::name_space);
  client.def_property_readonly(
      "masters", [](const PyClient& self) { return py::tuple(Each(self.masters(), TextOf)); });
  client.def("__enter__", [](py::object self) { return self; });
  client.def("__exit__", [](PyClient& self, const py::args&) { self.Close(); });
}

}  // namespace moonpool::python
