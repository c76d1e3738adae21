#include "client_sdk/python/src/client.h"

#include <array>
#include <utility>

#include "client_sdk/python/src/client_options.h"
#include "client_sdk/python/src/errors.h"
#include "client_sdk/python/src/gil.h"
#include "client_sdk/python/src/results.h"
#include "common/error.h"
#include "common/status_macros.h"

namespace moonpool::python {

namespace py = pybind11;

namespace {

// A copy of so little costs less than taking the GIL in the middle of a read for its own bytes.
constexpr size_t kScratchBytes = size_t{16} << 10;

// bytes objects that are made while their objects are read. Filled without the GIL, by the reading
// thread alone; destroyed with it.
class NewBytes {
 public:
  explicit NewBytes(size_t count) : objects_(count, nullptr) {}
  ~NewBytes() {
    // The interpreter ends, and ends this thread with it.
    if (PyGILState_Check() == 0) return;
    for (PyObject* object : objects_) Py_XDECREF(object);
  }
  NewBytes(const NewBytes&) = delete;
  NewBytes& operator=(const NewBytes&) = delete;

  // Any thread without the GIL.
  absl::StatusOr<MutableBuffer> Make(size_t index, uint64_t bytes) {
    PyObject* made = nullptr;
    WithGil([&] {
      Py_XDECREF(objects_[index]);
      made = PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(bytes));
      objects_[index] = made;
      if (made == nullptr) PyErr_Clear();
    });
    if (made == nullptr) {
      return MakeError(absl::StatusCode::kResourceExhausted, ErrorReason::kLimitReached,
                       "no memory for the object");
    }
    return MutableBuffer(reinterpret_cast<std::byte*>(PyBytes_AS_STRING(made)), bytes);
  }

  py::object Take(size_t index, size_t bytes) {
    PyObject*& object = objects_[index];
    if (static_cast<size_t>(PyBytes_GET_SIZE(object)) != bytes &&
        _PyBytes_Resize(&object, static_cast<Py_ssize_t>(bytes)) != 0) {
      throw py::error_already_set();
    }
    return py::reinterpret_steal<py::object>(std::exchange(object, nullptr));
  }

 private:
  std::vector<PyObject*> objects_;
};

}  // namespace

PyClient::PyClient(ClientOptions options, py::object on_warning, const CancelToken& cancel)
    : name_space_(options.name_space), masters_(options.masters), warnings_(std::move(on_warning)) {
  options.on_warning = warnings_.Sink();
  client_ = Connect(options, cancel);
}

std::shared_ptr<Client> PyClient::Open() const {
  if (ForkCount() != forks_) {
    Raise(MakeError(absl::StatusCode::kFailedPrecondition, ErrorReason::kBadArgument,
                    "the client was made before this process was forked",
                    {.hint = "make clients after the fork alone"}));
  }
  std::shared_ptr<Client> client;
  {
    absl::MutexLock lock(&mutex_);
    client = client_;
  }
  // Not under the lock: making the error runs code of Python's, which may give up the GIL, and
  // whoever takes it then may want the lock.
  if (client == nullptr) {
    Raise(MakeError(absl::StatusCode::kFailedPrecondition, ErrorReason::kBadArgument,
                    "the client is closed", {.hint = "make a new one"}));
  }
  return client;
}

template <typename Call>
auto PyClient::Run(Call call) const {
  std::shared_ptr<Client> client = Open();
  return WithoutGil([&] {
    auto result = call(*client);
    client.reset();
    return result;
  });
}

void PyClient::Close() {
  if (ForkCount() != forks_) return Abandon();
  std::shared_ptr<Client> client;
  {
    absl::MutexLock lock(&mutex_);
    client = std::move(client_);
  }
  if (client == nullptr) return;
  WithoutGil([&] {
    client.reset();
    return true;
  });
}

// Its threads and connections are the parent's, and its locks may be held by threads that are not
// here: never destroyed. Not under the lock, for the same reason; a child has one thread.
void PyClient::Abandon() { static_cast<void>(new std::shared_ptr<Client>(std::move(client_))); }

bool PyClient::is_closed() const {
  if (ForkCount() != forks_) return true;
  absl::MutexLock lock(&mutex_);
  return client_ == nullptr;
}

std::vector<absl::Status> PyClient::PutMany(absl::Span<const PutItem> items,
                                            const PutOptions& options) const {
  return Run([&](Client& client) { return client.PutMany(items, options); });
}

std::vector<absl::StatusOr<size_t>> PyClient::GetInto(absl::Span<const GetItem> items,
                                                      const GetOptions& options) const {
  return Run([&](Client& client) { return client.GetMany(items, options); });
}

py::object PyClient::Get(const std::string& key, const GetOptions& options) const {
  std::array<std::byte, kScratchBytes> scratch;  // NOLINT: written before it is read
  NewBytes made(1);
  bool is_small = false;
  const absl::StatusOr<size_t> read = Run([&](Client& client) {
    const auto allocate = [&](size_t index, uint64_t bytes) -> absl::StatusOr<MutableBuffer> {
      is_small = bytes <= kScratchBytes;
      if (is_small) return MutableBuffer(scratch.data(), bytes);
      return made.Make(index, bytes);
    };
    return client.GetMany({&key, 1}, allocate, options).front();
  });
  RaiseIfError(read.status());
  if (!is_small) return made.Take(0, *read);
  return py::bytes(reinterpret_cast<const char*>(scratch.data()), *read);
}

py::list PyClient::GetMany(const std::vector<std::string>& keys, const GetOptions& options) const {
  NewBytes made(keys.size());
  const std::vector<absl::StatusOr<size_t>> results = Run([&](Client& client) {
    return client.GetMany(
        keys, [&made](size_t index, uint64_t bytes) { return made.Make(index, bytes); }, options);
  });
  py::list values = NewList(results.size());
  for (size_t i = 0; i < results.size(); ++i) {
    values[i] = results[i].ok() ? made.Take(i, *results[i]) : ErrorOf(results[i].status());
  }
  return values;
}

std::vector<absl::StatusOr<View>> PyClient::GetViews(const std::vector<std::string>& keys,
                                                     const GetOptions& options) const {
  return Run([&](Client& client) { return client.GetViewMany(keys, options); });
}

std::vector<absl::Status> PyClient::Exists(const std::vector<std::string>& keys,
                                           const CallOptions& options) const {
  return Run([&](Client& client) { return client.Exists(keys, options); });
}

absl::StatusOr<PrefixMatch> PyClient::MatchPrefix(const std::vector<std::string>& keys,
                                                  const MatchOptions& options) const {
  return Run([&](Client& client) { return client.MatchPrefix(keys, options); });
}

std::vector<absl::StatusOr<Description>> PyClient::Describe(const std::vector<std::string>& keys,
                                                            const CallOptions& options) const {
  return Run([&](Client& client) { return client.Describe(keys, options); });
}

absl::StatusOr<KeyPage> PyClient::ListKeys(const std::string& prefix,
                                           const ListOptions& options) const {
  return Run([&](Client& client) { return client.ListKeys(prefix, options); });
}

std::vector<absl::Status> PyClient::Remove(const std::vector<std::string>& keys,
                                           const CallOptions& options) const {
  return Run([&](Client& client) { return client.Remove(keys, options); });
}

}  // namespace moonpool::python
