// A real etcd, over gRPC.
//
//   ASSIGN_OR_RETURN(auto etcd, EtcdClient::Create(options, clock, logger));
//   etcd->Call(EtcdGet{.key = "/moonpool/c/term"}, absl::Seconds(1), done);
//
// Members are tried in turn within the timeout, from the one that answered last; each gets a fair
// share of what is left of it, and has to be connected within 0.7 s. So a request may be carried
// out by one member whose answer is lost, and again by the next: its compares have to make that
// harmless. A wait for a change asks one member only, and passes its error on.
//
// Errors name the endpoint, the cause and what to do. Secrets are in no error and no log.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/log.h"
#include "master/etcd/etcd.h"
#include "master/etcd/etcd_endpoint.h"
#include "master/etcd/etcd_options.h"

namespace moonpool::master {

// Thread-safe. Calls run on gRPC's threads.
class EtcdClient final : public Etcd {
 public:
  // Reads the files of TLS; connects only when it is called. Borrows clock and logger.
  static absl::StatusOr<std::unique_ptr<EtcdClient>> Create(EtcdOptions options, const Clock& clock,
                                                            Logger& logger);
  // Fails what is under way with CANCELLED, and returns when nothing is.
  ~EtcdClient() override;

  void Call(EtcdRequest request, absl::Duration timeout, Done done) override;

 private:
  class Pending;

  EtcdClient(EtcdOptions options, const EtcdTls& tls, const Clock& clock, Logger& logger);

  bool is_stopping() const;
  // What to send with a request: nullopt when a login has to come first.
  std::optional<std::string> Token() const;
  void KeepToken(std::string token);
  void DropToken(const std::string& token);
  // etcd has no authentication on; until it says otherwise no token is sent.
  void NoteNoLogin();

  const EtcdOptions options_;
  const Clock& clock_;
  Logger& logger_;
  std::vector<std::unique_ptr<EtcdEndpoint>> endpoints_;
  std::atomic<size_t> preferred_ = 0;  // answered last

  mutable absl::Mutex mutex_;
  bool is_stopping_ ABSL_GUARDED_BY(mutex_) = false;
  size_t pending_ ABSL_GUARDED_BY(mutex_) = 0;
  bool needs_login_ ABSL_GUARDED_BY(mutex_);
  std::string token_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace moonpool::master
