#include "client_sdk/python/src/calls.h"

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
#include "client_sdk/python/src/results.h"

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
  const Items values(arguments[1], "values");
  RequireAsMany("values", values.size(), keys.size());
  std::vector<PutItem> items(keys.size());
  for (size_t i = 0; i < items.size(); ++i) {
    items[i].key = std::move(keys[i]);
    items[i].value = buffers.Readable(values[i]);
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
  const Items targets(arguments[1], "targets");
  RequireAsMany("targets", targets.size(), keys.size());
  std::vector<GetItem> items(keys.size());
  for (size_t i = 0; i < items.size(); ++i) {
    items[i].key = std::move(keys[i]);
    items[i].into = buffers.Writable(targets[i]);
  }
  return Each(client.GetInto(items, GetOf(arguments, 2)), BytesRead);
}

py::list Views(const PyClient& client, const std::vector<std::string>& keys,
               const GetOptions& options) {
  std::vector<absl::StatusOr<View>> views = client.GetViews(keys, options);
  py::list list = NewList(views.size());
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

constexpr Parameters<4> kMatchPrefix = {{"keys", "hold", "timeout", "cancel"}, 1, 1};
py::object MatchPrefix(const PyClient& client, const Arguments& arguments) {
  const double hold = arguments.Number(1, 0);
  if (!(hold >= 0)) RaiseInvalid(absl::StrCat("hold is negative: ", hold));
  absl::StatusOr<PrefixMatch> match = client.MatchPrefix(
      KeysOf(arguments[0]), {.call = CallOf(arguments, 2), .hold = absl::Seconds(hold)});
  RaiseIfError(match.status());
  Match found = {match->matched, std::move(match->sizes), absl::ToDoubleSeconds(match->held),
                 match->miss.ok() ? py::none() : ErrorOf(match->miss)};
  return InPython([&] { return py::cast(std::move(found)); });
}

py::object DescriptionOutcome(const absl::StatusOr<Description>& description) {
  return description.ok() ? py::cast(*description) : ErrorOf(description.status());
}

constexpr Parameters<3> kDescribe = {{"key", "timeout", "cancel"}, 1, 1};
py::object Describe(const PyClient& client, const Arguments& arguments) {
  return Only(
      DescriptionOutcome(client.Describe({KeyOf(arguments[0])}, CallOf(arguments, 1)).front()));
}

constexpr Parameters<3> kDescribeMany = {{"keys", "timeout", "cancel"}, 1, 1};
py::object DescribeMany(const PyClient& client, const Arguments& arguments) {
  return Each(client.Describe(KeysOf(arguments[0]), CallOf(arguments, 1)), DescriptionOutcome);
}

constexpr Parameters<5> kListKeys = {{"prefix", "limit", "after", "timeout", "cancel"}, 1, 0};
py::object ListKeys(const PyClient& client, const Arguments& arguments) {
  ListOptions options = {.call = CallOf(arguments, 3)};
  options.limit = arguments.Count(1, static_cast<uint32_t>(options.limit));
  if (arguments[2]) options.after = KeyOf(arguments[2]);
  absl::StatusOr<KeyPage> page =
      client.ListKeys(arguments[0] ? KeyOf(arguments[0]) : std::string(), options);
  RaiseIfError(page.status());
  return py::cast(*std::move(page));
}

}  // namespace

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
  AddMethod<PyClient, Describe, kDescribe>(client, "describe", docs::kDescribe);
  AddMethod<PyClient, DescribeMany, kDescribeMany>(client, "describe_many", docs::kDescribeMany);
  AddMethod<PyClient, ListKeys, kListKeys>(client, "list_keys", docs::kListKeys);
  AddMethod<PyClient, Remove, kRemove>(client, "remove", docs::kRemove);
  AddMethod<PyClient, RemoveMany, kRemoveMany>(client, "remove_many", docs::kRemoveMany);
}

}  // namespace moonpool::python
