// The client without its edges: what moonpool::Client does, over a given master, given transports
// and a given clock. The real client wraps it (client_sdk/src); the simulator runs it as it is.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "client_sdk/core/master_stub.h"
#include "client_sdk/core/session.h"
#include "common/log.h"
#include "moonpool/client.h"
#include "transport/waiter.h"

namespace moonpool::client {

// Thread-safe; the calling thread does the work. Borrows everything. No lock is held while a call
// blocks. Calls have ended before it is destroyed; views may outlive it.
class CoreClient {
 public:
  CoreClient(MasterStub& master, transport::Waiter& waiter, const Logger& logger,
             const SessionOptions& options)
      : session_(master, waiter, logger, options) {}

  // Once, before the calls below. They work without it, too, in a namespace without a fingerprint,
  // but find a wrong one late.
  absl::Status OpenNamespace(absl::string_view fingerprint, const CallOptions& options);

  // As documented in moonpool/client.h.
  std::vector<absl::Status> PutMany(absl::Span<const PutItem> items, const PutOptions& options);
  std::vector<absl::StatusOr<size_t>> GetMany(absl::Span<const GetItem> items,
                                              const GetOptions& options);
  std::vector<absl::StatusOr<size_t>> GetMany(absl::Span<const std::string> keys, Allocate allocate,
                                              const GetOptions& options);
  absl::StatusOr<std::string> Get(absl::string_view key, const GetOptions& options);
  absl::StatusOr<View> GetView(absl::string_view key, const GetOptions& options);
  std::vector<absl::StatusOr<View>> GetViewMany(absl::Span<const std::string> keys,
                                                const GetOptions& options);
  std::vector<absl::Status> Exists(absl::Span<const std::string> keys, const CallOptions& options);
  absl::StatusOr<PrefixMatch> MatchPrefix(absl::Span<const std::string> keys,
                                          const MatchOptions& options);
  std::vector<absl::StatusOr<Description>> Describe(absl::Span<const std::string> keys,
                                                    const CallOptions& options);
  absl::StatusOr<KeyPage> ListKeys(absl::string_view prefix, const ListOptions& options);
  std::vector<absl::Status> Remove(absl::Span<const std::string> keys, const CallOptions& options);
  // Gives back what was granted ahead, for puts that will not come. With the last call.
  void Close();
  ClientStats stats() const { return session_.counters().Snapshot(); }

 private:
  bool Verifies(const GetOptions& options) const {
    return options.verify && session_.options().verify;
  }

  Session session_;
};

}  // namespace moonpool::client
