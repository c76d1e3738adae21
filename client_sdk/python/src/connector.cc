#include "client_sdk/python/src/connector.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "client_sdk/python/src/client_options.h"
#include "client_sdk/python/src/errors.h"
#include "client_sdk/python/src/results.h"
#include "common/error.h"

namespace moonpool::python {

namespace py = pybind11;

namespace {

enum class Judgement {
  kYes,
  kNo,      // an answer of the pool's, too
  kFailed,  // nobody knows
};

Judgement OfPut(const absl::Status& status) {
  return status.ok() || absl::IsAlreadyExists(status) ? Judgement::kYes : Judgement::kFailed;
}

Judgement OfLookup(const absl::Status& status) {
  if (status.ok()) return Judgement::kYes;
  return absl::IsNotFound(status) ? Judgement::kNo : Judgement::kFailed;
}

// One that was not there is as gone as one that was.
Judgement OfRemove(const absl::Status& status) {
  return status.ok() || absl::IsNotFound(status) ? Judgement::kYes : Judgement::kFailed;
}

const absl::Status& StatusOf(const absl::Status& result) { return result; }
const absl::Status& StatusOf(const absl::StatusOr<size_t>& result) { return result.status(); }

// `judge(index, result)`. Whether it is all right that some failed is for the kind of the batch.
template <typename Results, typename Judge>
Completion CompletionOf(uint64_t id, const Results& results, bool must_all_succeed, Judge judge) {
  Completion completion = {.id = id};
  size_t failures = 0;
  for (size_t i = 0; i < results.size(); ++i) {
    const Judgement judgement = judge(i, results[i]);
    completion.results.push_back(judgement == Judgement::kYes);
    if (judgement == Judgement::kFailed && failures++ == 0) {
      completion.error = Describe(StatusOf(results[i]));
    }
  }
  completion.is_ok = failures == 0 || (!must_all_succeed && failures < results.size());
  return completion;
}

absl::Status Closed() {
  return MakeError(absl::StatusCode::kCancelled, ErrorReason::kShuttingDown,
                   "the connector is closed");
}

void RequireAsMany(size_t views, size_t keys) {
  if (views != keys) RaiseInvalid(absl::StrCat(keys, " keys, but ", views, " buffers"));
}

ConnectorOptions With(ConnectorOptions options, const Warnings& warnings) {
  options.client.on_warning = warnings.Sink();
  return options;
}

}  // namespace

Connector::Connector(ConnectorOptions options, py::object on_warning)
    : warnings_(std::move(on_warning)),
      options_(With(std::move(options), warnings_)),
      loads_(Connect(options_.client)),
      stores_(Connect(options_.client)) {
  if (completions_->fd() >= 0) return;
  Raise(MakeError(absl::StatusCode::kResourceExhausted, ErrorReason::kLimitReached,
                  "no file descriptor is left", {.hint = "raise the limits of the process"}));
}

void Connector::RequireOwnProcess() const {
  if (ForkCount() == forks_) return;
  Raise(MakeError(absl::StatusCode::kFailedPrecondition, ErrorReason::kBadArgument,
                  "the connector was made before this process was forked",
                  {.hint = "make connectors after the fork alone"}));
}

int Connector::event_fd() const {
  RequireOwnProcess();
  return completions_->fd();
}

void Connector::Wake() {
  RequireOwnProcess();
  completions_->Wake();
}

uint64_t Connector::Begin(std::unique_ptr<BorrowedBuffers> buffers) {
  RequireOwnProcess();
  const uint64_t id = ++last_id_;
  if (buffers != nullptr) lent_.emplace(id, std::move(buffers));
  return id;
}

template <typename Results, typename Judge, typename Submit>
void Connector::Run(const std::unique_ptr<Client>& client, uint64_t id, size_t keys, Judge judge,
                    Submit submit) {
  auto done = [id, judge, completions = completions_](Results results) {
    completions->Add(judge(id, results));
  };
  if (client == nullptr) {
    done(Results(keys, Closed()));
  } else {
    submit(*client, std::move(done));
  }
}

uint64_t Connector::SubmitSet(py::handle keys, py::handle views) {
  std::vector<std::string> names = KeysOf(keys);
  const Items lent(views, "buffers");
  RequireAsMany(lent.size(), names.size());
  auto buffers = std::make_unique<BorrowedBuffers>();
  std::vector<PutItem> items(names.size());
  for (size_t i = 0; i < items.size(); ++i) {
    items[i] = {.key = std::move(names[i]), .value = buffers->Readable(lent[i])};
  }
  const uint64_t id = Begin(std::move(buffers));
  // Two engines that store the same chunk at once are both told that it is there.
  PutOptions options = {.call = {.timeout = options_.store_timeout, .cancel = cancel_.token()},
                        .replicas = options_.replicas,
                        .wait_for_space = options_.wait_for_space,
                        .wait_for_writer = true};
  using Results = std::vector<absl::Status>;
  const auto judge = [](uint64_t batch, const Results& results) {
    return CompletionOf(batch, results, /*must_all_succeed=*/true,
                        [](size_t, const absl::Status& status) { return OfPut(status); });
  };
  absl::MutexLock lock(&mutex_);
  Run<Results>(stores_, id, items.size(), judge, [&](Client& client, auto done) {
    client.PutManyAsync(std::move(items), std::move(options), std::move(done));
  });
  return id;
}

uint64_t Connector::SubmitGet(py::handle keys, py::handle views) {
  std::vector<std::string> names = KeysOf(keys);
  const Items lent(views, "buffers");
  RequireAsMany(lent.size(), names.size());
  auto buffers = std::make_unique<BorrowedBuffers>();
  std::vector<GetItem> items(names.size());
  std::vector<size_t> room(names.size());
  for (size_t i = 0; i < items.size(); ++i) {
    items[i] = {.key = std::move(names[i]), .into = buffers->Writable(lent[i])};
    for (const MutableBuffer& piece : items[i].into) room[i] += piece.size();
  }
  const uint64_t id = Begin(std::move(buffers));
  GetOptions options = {.call = {.timeout = options_.load_timeout, .cancel = cancel_.token()}};
  using Results = std::vector<absl::StatusOr<size_t>>;
  const auto judge = [room = std::move(room)](uint64_t batch, const Results& results) {
    return CompletionOf(batch, results, /*must_all_succeed=*/false,
                        [&room](size_t i, const absl::StatusOr<size_t>& read) {
                          if (!read.ok()) return OfLookup(read.status());
                          // A shorter object is another thing than the caller believes.
                          return *read == room[i] ? Judgement::kYes : Judgement::kNo;
                        });
  };
  absl::MutexLock lock(&mutex_);
  Run<Results>(loads_, id, items.size(), judge, [&](Client& client, auto done) {
    client.GetManyAsync(std::move(items), std::move(options), std::move(done));
  });
  return id;
}

uint64_t Connector::SubmitExists(py::handle keys) {
  std::vector<std::string> names = KeysOf(keys);
  const uint64_t id = Begin(nullptr);
  const CallOptions options = {.timeout = options_.load_timeout, .cancel = cancel_.token()};
  using Results = std::vector<absl::Status>;
  const auto judge = [](uint64_t batch, const Results& results) {
    return CompletionOf(batch, results, /*must_all_succeed=*/false,
                        [](size_t, const absl::Status& status) { return OfLookup(status); });
  };
  absl::MutexLock lock(&mutex_);
  Run<Results>(loads_, id, names.size(), judge, [&](Client& client, auto done) {
    client.ExistsAsync(std::move(names), options, std::move(done));
  });
  return id;
}

uint64_t Connector::SubmitDelete(py::handle keys) {
  std::vector<std::string> names = KeysOf(keys);
  const uint64_t id = Begin(nullptr);
  const CallOptions options = {.timeout = options_.store_timeout, .cancel = cancel_.token()};
  using Results = std::vector<absl::Status>;
  const auto judge = [](uint64_t batch, const Results& results) {
    return CompletionOf(batch, results, /*must_all_succeed=*/true,
                        [](size_t, const absl::Status& status) { return OfRemove(status); });
  };
  absl::MutexLock lock(&mutex_);
  Run<Results>(stores_, id, names.size(), judge, [&](Client& client, auto done) {
    client.RemoveAsync(std::move(names), options, std::move(done));
  });
  return id;
}

py::list Connector::Drain() {
  RequireOwnProcess();
  py::list drained = NewList(0);
  for (const Completion& completion : completions_->Take()) {
    // Goes when it is in the map no more: letting go of a buffer may run any code of Python's,
    // which may drain, too, or let other threads do so.
    const auto lent = lent_.extract(completion.id);
    const py::int_ id(completion.id);
    const py::str error = TextOf(completion.error);
    const py::list results =
        Each(completion.results, [](bool result) -> py::object { return py::bool_(result); });
    PyObject* const batch = InPython([&] {
      return PyTuple_Pack(4, id.ptr(), completion.is_ok ? Py_True : Py_False, error.ptr(),
                          results.ptr());
    });
    if (batch == nullptr) throw py::error_already_set();
    drained.append(py::reinterpret_steal<py::object>(batch));
  }
  return drained;
}

void Connector::Close() {
  if (ForkCount() != forks_) return Abandon();
  cancel_.Cancel();
  WithoutGil([&] {
    // Whoever else closes it waits here for the first.
    absl::MutexLock closing(&closing_);
    std::unique_ptr<Client> loads, stores;
    {
      absl::MutexLock lock(&mutex_);
      loads = std::move(loads_);
      stores = std::move(stores_);
    }
    loads.reset();
    stores.reset();
    return true;
  });
  // As in Drain.
  const auto lent = std::exchange(lent_, {});
}

// As PyClient::Abandon: threads and connections are the parent's, and its locks may be held.
void Connector::Abandon() {
  static_cast<void>(loads_.release());
  static_cast<void>(stores_.release());
}

ClientStats Connector::stats() const {
  RequireOwnProcess();
  absl::MutexLock lock(&mutex_);
  if (loads_ == nullptr) return {};
  ClientStats stats = loads_->stats();
  const ClientStats stores = stores_->stats();
  stats.puts = stores.puts;
  stats.put_bytes = stores.put_bytes;
  stats.master_calls += stores.master_calls;
  stats.failovers += stores.failovers;
  return stats;
}

}  // namespace moonpool::python
