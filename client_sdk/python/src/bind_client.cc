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
#include "client_sdk/python/src/method.h"

namespace moonpool::python {

namespace py = pybind11;

namespace {

// The parameters of every call are followed by these two.
CallOptions CallOf(const Arguments& arguments, size_t timeout) {
  CallOptions call;
  if (arguments[timeout]) {
    const double seconds = arguments.Number(timeout, 0);
    if (!(seconds > 0)) RaiseInvalid(absl::StrCat("timeout is not positive: ", seconds));
    call.timeout = absl::Seconds(seconds);
  }
  if (const py::handle cancel = arguments[timeout + 1]; cancel) {
    call.cancel = cancel.cast<CancelSource&>().token();
  }
  return call;
}

// verify, timeout, cancel
GetOptions GetOf(const Arguments& arguments, size_t verify) {
  return {.call = CallOf(arguments, verify + 1), .verify = arguments.Bool(verify, true)};
}

// replicas, min_replicas, wait_for_space, wait_for_writer, timeout, cancel
PutOptions PutOf(const Arguments& arguments, size_t replicas) {
  return {.call = CallOf(arguments, replicas + 4),
          .replicas = arguments.Count(replicas, 1),
          .min_replicas = arguments.Count(replicas + 1, 0),
          .wait_for_space = arguments.Bool(replicas + 2, true),
          .wait_for_writer = arguments.Bool(replicas + 3, false)};
}

py::sequence SequenceOf(py::handle object, const char* of) {
  RequireSequence(object, of);
  return py::reinterpret_borrow<py::sequence>(object);
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

constexpr Parameters<9> kPut = {{"key", "value", "parent", "replicas", "min_replicas",
                                 "wait_for_space", "wait_for_writer", "timeout", "cancel"},
                                2,
                                2};
py::object Put(const PyClient& client, const Arguments& arguments) {
  BorrowedBuffers buffers;
  std::vector<PutItem> items(1);
  items[0] = {.key = KeyOf(arguments[0]), .value = buffers.Readable(arguments[1])};
  if (arguments[2]) items[0].parent = KeyOf(arguments[2]);
  return Only(PutOutcome(client.PutMany(items, PutOf(arguments, 3)).front()));
}

constexpr Parameters<9> kPutMany = {{"keys", "values", "parents", "replicas", "min_replicas",
                                     "wait_for_space", "wait_for_writer", "timeout", "cancel"},
                                    2,
                                    2};
py::object PutMany(const PyClient& client, const Arguments& arguments) {
  BorrowedBuffers buffers;
  std::vector<std::string> keys = KeysOf(arguments[0]);
  const py::sequence values = SequenceOf(arguments[1], "values");
  RequireAsMany("values", values.size(), keys.size());
  std::vector<PutItem> items(keys.size());
  for (size_t i = 0; i < items.size(); ++i) {
    items[i].key = std::move(keys[i]);
    items[i].value = buffers.Readable(py::object(values[i]));
  }
  if (arguments[2]) {
    std::vector<std::string> parents = KeysOf(arguments[2]);
    RequireAsMany("parents", parents.size(), items.size());
    for (size_t i = 0; i < items.size(); ++i) items[i].parent = std::move(parents[i]);
  }
  return Each(client.PutMany(items, PutOf(arguments, 3)), PutOutcome);
}

py::object BytesRead(const absl::StatusOr<size_t>& result) {
  return result.ok() ? py::int_(*result) : ErrorOf(result.status());
}

constexpr Parameters<4> kGet = {{"key", "verify", "timeout", "cancel"}, 1, 1};
py::object Get(const PyClient& client, const Arguments& arguments) {
  return client.Get(KeyOf(arguments[0]), GetOf(arguments, 1));
}

constexpr Parameters<4> kGetMany = {{"keys", "verify", "timeout", "cancel"}, 1, 1};
py::object GetMany(const PyClient& client, const Arguments& arguments) {
  return client.GetMany(KeysOf(arguments[0]), GetOf(arguments, 1));
}

constexpr Parameters<5> kGetInto = {{"key", "target", "verify", "timeout", "cancel"}, 2, 2};
py::object GetInto(const PyClient& client, const Arguments& arguments) {
  BorrowedBuffers buffers;
  GetItem item = {.key = KeyOf(arguments[0]), .into = buffers.Writable(arguments[1])};
  return Only(BytesRead(client.GetInto({&item, 1}, GetOf(arguments, 2)).front()));
}

constexpr Parameters<5> kGetIntoMany = {{"keys", "targets", "verify", "timeout", "cancel"}, 2, 2};
py::object GetIntoMany(const PyClient& client, const Arguments& arguments) {
  BorrowedBuffers buffers;
  std::vector<std::string> keys = KeysOf(arguments[0]);
  const py::sequence targets = SequenceOf(arguments[1], "targets");
  RequireAsMany("targets", targets.size(), keys.size());
  std::vector<GetItem> items(keys.size());
  for (size_t i = 0; i < items.size(); ++i) {
    items[i].key = std::move(keys[i]);
    items[i].into = buffers.Writable(py::object(targets[i]));
  }
  return Each(client.GetInto(items, GetOf(arguments, 2)), BytesRead);
}

py::list Views(const PyClient& client, const std::vector<std::string>& keys,
               const GetOptions& options) {
  std::vector<absl::StatusOr<View>> views = client.GetViews(keys, options);
  py::list list(views.size());
  for (size_t i = 0; i < views.size(); ++i) {
    list[i] = views[i].ok() ? py::cast(std::make_unique<PyView>(*std::move(views[i])))
                            : ErrorOf(views[i].status());
  }
  return list;
}

constexpr Parameters<4> kGetView = kGet;
py::object GetView(const PyClient& client, const Arguments& arguments) {
  return Only(Views(client, {KeyOf(arguments[0])}, GetOf(arguments, 1))[0]);
}

constexpr Parameters<4> kGetViewMany = kGetMany;
py::object GetViewMany(const PyClient& client, const Arguments& arguments) {
  return Views(client, KeysOf(arguments[0]), GetOf(arguments, 1));
}

constexpr Parameters<3> kExists = {{"key", "timeout", "cancel"}, 1, 1};
py::object Exists(const PyClient& client, const Arguments& arguments) {
  return Only(KeyOutcome(client.Exists({KeyOf(arguments[0])}, CallOf(arguments, 1)).front()));
}

constexpr Parameters<3> kExistsMany = {{"keys", "timeout", "cancel"}, 1, 1};
py::object ExistsMany(const PyClient& client, const Arguments& arguments) {
  return Each(client.Exists(KeysOf(arguments[0]), CallOf(arguments, 1)), KeyOutcome);
}

constexpr Parameters<3> kRemove = kExists;
py::object Remove(const PyClient& client, const Arguments& arguments) {
  return Only(KeyOutcome(client.Remove({KeyOf(arguments[0])}, CallOf(arguments, 1)).front()));
}

constexpr Parameters<3> kRemoveMany = kExistsMany;
py::object RemoveMany(const PyClient& client, const Arguments& arguments) {
  return Each(client.Remove(KeysOf(arguments[0]), CallOf(arguments, 1)), KeyOutcome);
}

struct Match {
  size_t matched;
  std::vector<uint64_t> sizes;
  double held;
  py::object miss;
};

constexpr Parameters<4> kMatchPrefix = {{"keys", "hold", "timeout", "cancel"}, 1, 1};
py::object MatchPrefix(const PyClient& client, const Arguments& arguments) {
  const double hold = arguments.Number(1, 0);
  if (!(hold >= 0)) RaiseInvalid(absl::StrCat("hold is negative: ", hold));
  absl::StatusOr<PrefixMatch> match = client.MatchPrefix(
      KeysOf(arguments[0]), {.call = CallOf(arguments, 2), .hold = absl::Seconds(hold)});
  RaiseIfError(match.status());
  return py::cast(Match{match->matched, std::move(match->sizes), absl::ToDoubleSeconds(match->held),
                        match->miss.ok() ? py::none() : ErrorOf(match->miss)});
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

void AddCalls(py::handle client) {
  AddMethod<PyClient, Put, kPut>(client, "put", docs::kPut);
  AddMethod<PyClient, PutMany, kPutMany>(client, "put_many", docs::kPutMany);
  AddMethod<PyClient, Get, kGet>(client, "get", docs::kGet);
  AddMethod<PyClient, GetMany, kGetMany>(client, "get_many", docs::kGetMany);
  AddMethod<PyClient, GetInto, kGetInto>(client, "get_into", docs::kGetInto);
  AddMethod<PyClient, GetIntoMany, kGetIntoMany>(client, "get_into_many", docs::kGetIntoMany);
  AddMethod<PyClient, GetView, kGetView>(client, "get_view", docs::kGetView);
  AddMethod<PyClient, GetViewMany, kGetViewMany>(client, "get_view_many", docs::kGetViewMany);
  AddMethod<PyClient, Exists, kExists>(client, "exists", docs::kExists);
  AddMethod<PyClient, ExistsMany, kExistsMany>(client, "exists_many", docs::kExistsMany);
  AddMethod<PyClient, MatchPrefix, kMatchPrefix>(client, "match_prefix", docs::kMatchPrefix);
  AddMethod<PyClient, Remove, kRemove>(client, "remove", docs::kRemove);
  AddMethod<PyClient, RemoveMany, kRemoveMany>(client, "remove_many", docs::kRemoveMany);
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
  py::class_<PyClient> client(module, "Client", docs::kClient);
  // The arguments as people give them are put in order by moonpool/_client.py.
  client.def(py::init(&MakeClient), py::kw_only(), py::arg("masters"), py::arg("namespace"),
             py::arg("fingerprint"), py::arg("path"), py::arg("verify"), py::arg("timeout"),
             py::arg("wait_for_master"), py::arg("tcp_streams"), py::arg("host_id"),
             py::arg("trusted_uids"), py::arg("location_cache_entries"), py::arg("on_warning"));
  AddCalls(client);
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
