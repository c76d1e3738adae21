// moonpool.Client on top of moonpool::Client: Python objects in, Python objects out, and the GIL
// released in between.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "client_sdk/python/src/view.h"
#include "client_sdk/python/src/warnings.h"
#include "moonpool/client.h"

namespace moonpool::python {

// Thread-safe, as moonpool::Client is. Every public method is called with the GIL.
class PyClient {
 public:
  // `cancel`: of connecting.
  PyClient(ClientOptions options, pybind11::object on_warning, const CancelToken& cancel);
  // Where the process was forked meanwhile, what the client has belongs to the parent and is left.
  ~PyClient() { Close(); }

  std::vector<absl::Status> PutMany(absl::Span<const PutItem> items,
                                    const PutOptions& options) const;
  std::vector<absl::StatusOr<size_t>> GetInto(absl::Span<const GetItem> items,
                                              const GetOptions& options) const;
  // bytes. Raises.
  pybind11::object Get(const std::string& key, const GetOptions& options) const;
  // The bytes of each, or its error.
  pybind11::list GetMany(const std::vector<std::string>& keys, const GetOptions& options) const;
  std::vector<absl::StatusOr<View>> GetViews(const std::vector<std::string>& keys,
                                             const GetOptions& options) const;
  std::vector<absl::Status> Exists(const std::vector<std::string>& keys,
                                   const CallOptions& options) const;
  absl::StatusOr<PrefixMatch> MatchPrefix(const std::vector<std::string>& keys,
                                          const MatchOptions& options) const;
  std::vector<absl::StatusOr<Description>> Describe(const std::vector<std::string>& keys,
                                                    const CallOptions& options) const;
  absl::StatusOr<KeyPage> ListKeys(const std::string& prefix, const ListOptions& options) const;
  std::vector<absl::Status> Remove(const std::vector<std::string>& keys,
                                   const CallOptions& options) const;
  ClientStats stats() const { return Open()->stats(); }

  // Calls that are under way end as they would have. Idempotent.
  void Close();
  bool is_closed() const;
  const std::string& name_space() const { return name_space_; }
  const std::vector<std::string>& masters() const { return masters_; }
  // For the collector.
  pybind11::object& on_warning() { return warnings_.function(); }

 private:
  // FailedPrecondition once it is closed, and in a forked child.
  std::shared_ptr<Client> Open() const;
  // `call(Client&)` without the GIL; what is closed meanwhile is destroyed there, too.
  template <typename Call>
  auto Run(Call call) const;
  // In a forked child.
  void Abandon() ABSL_NO_THREAD_SAFETY_ANALYSIS;

  const int forks_ = ForkCount();
  const std::string name_space_;
  const std::vector<std::string> masters_;
  Warnings warnings_;  // before the client, which calls it
  mutable absl::Mutex mutex_;
  std::shared_ptr<Client> client_ ABSL_GUARDED_BY(mutex_);
};

void BindClient(pybind11::module_& module);

}  // namespace moonpool::python
