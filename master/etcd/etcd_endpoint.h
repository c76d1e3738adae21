// One member of etcd, and calls to it. The only file that sees gRPC is etcd_endpoint.cc.
#pragma once

#include <memory>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "master/etcd/etcd.h"
#include "master/etcd/etcd_errors.h"

namespace moonpool::master {

// Contents of the files that EtcdOptions names; all empty: no TLS.
struct EtcdTls {
  std::string ca;
  std::string cert;
  std::string key;
};

// What came of one call at one member.
template <typename Value>
struct EtcdOutcome {
  absl::StatusOr<Value> value;
  EtcdErrorKind kind = EtcdErrorKind::kFinal;  // when the value is an error
};

// Thread-safe.
class EtcdEndpoint {
 public:
  using CallDone = absl::AnyInvocable<void(EtcdOutcome<EtcdAnswer>) &&>;
  using LoginDone = absl::AnyInvocable<void(EtcdOutcome<std::string>) &&>;

  EtcdEndpoint(std::string address, const EtcdTls& tls);
  ~EtcdEndpoint();  // cancels what is under way, and waits for it

  const std::string& address() const { return address_; }
  // `done` is called once, within the timeout, on a thread of gRPC. An empty token is none.
  void Call(const EtcdRequest& request, const std::string& token, absl::Duration timeout,
            CallDone done);
  // The token of a user.
  void Login(const std::string& user, const std::string& password, absl::Duration timeout,
             LoginDone done);
  // From now on every call fails, with CANCELLED.
  void CancelAll();

 private:
  struct Rep;
  struct Starter;

  const std::string address_;
  const std::unique_ptr<Rep> rep_;
};

}  // namespace moonpool::master
