#include "master/etcd/etcd_client.h"

#include <fstream>
#include <sstream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/error.h"
#include "common/status_macros.h"

namespace moonpool::master {
namespace {

absl::StatusOr<std::string> ReadSmallFile(const std::string& path, absl::string_view what) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file || text.str().empty()) {
    return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kBadArgument,
                     absl::StrCat(what, " for etcd cannot be read, or is empty: ", path),
                     {.hint = "check the path and that this user may read it"});
  }
  return text.str();
}

absl::StatusOr<std::string> ReadPassword(const std::string& path) {
  ASSIGN_OR_RETURN(std::string password, ReadSmallFile(path, "the password file"));
  while (!password.empty() && (password.back() == '\n' || password.back() == '\r')) {
    password.pop_back();
  }
  return password;
}

absl::StatusOr<EtcdTls> ReadTls(const EtcdOptions& options) {
  EtcdTls tls;
  if (options.ca_file.empty()) return tls;
  ASSIGN_OR_RETURN(tls.ca, ReadSmallFile(options.ca_file, "the CA file"));
  if (options.cert_file.empty()) return tls;
  ASSIGN_OR_RETURN(tls.cert, ReadSmallFile(options.cert_file, "the certificate file"));
  ASSIGN_OR_RETURN(tls.key, ReadSmallFile(options.key_file, "the key file"));
  return tls;
}

}  // namespace

// One request on its way through the members. Each step is begun by the end of the one before, on
// gRPC's threads; no two run at once.
class EtcdClient::Pending : public std::enable_shared_from_this<EtcdClient::Pending> {
 public:
  Pending(EtcdClient& client, EtcdRequest request, absl::Duration timeout, Done done)
      : client_(client),
        request_(std::move(request)),
        deadline_(client.clock_.Now() + timeout),
        next_(client.preferred_.load(std::memory_order_relaxed)),
        left_(std::holds_alternative<EtcdAwaitChange>(request_) ? 1 : client.endpoints_.size()),
        done_(std::move(done)) {}

  void Step() {
    if (client_.is_stopping()) return Finish(absl::CancelledError("the master is stopping"));
    const absl::Duration time_left = deadline_ - client_.clock_.Now();
    if (left_ == 0 || time_left <= absl::ZeroDuration()) return Finish(Exhausted());
    EtcdEndpoint& endpoint = *client_.endpoints_[next_ % client_.endpoints_.size()];
    const absl::Duration share = time_left / static_cast<int64_t>(left_);
    const std::optional<std::string> token = client_.Token();
    if (!token.has_value()) return Login(endpoint, share);
    endpoint.Call(request_, *token, share,
                  [self = shared_from_this(), token = *token](EtcdOutcome<EtcdAnswer> outcome) {
                    self->OnAnswer(std::move(outcome), token);
                  });
  }

 private:
  void Login(EtcdEndpoint& endpoint, absl::Duration timeout) {
    auto password = ReadPassword(client_.options_.password_file);
    if (!password.ok()) return Finish(password.status());
    endpoint.Login(client_.options_.user, *password, timeout,
                   [self = shared_from_this()](EtcdOutcome<std::string> outcome) {
                     self->OnLogin(std::move(outcome));
                   });
  }

  void OnLogin(EtcdOutcome<std::string> outcome) {
    if (outcome.value.ok()) {
      client_.KeepToken(*std::move(outcome.value));
    } else if (absl::StrContains(outcome.value.status().message(),
                                 "authentication is not enabled")) {
      client_.NoteNoLogin();
    } else if (outcome.kind == EtcdErrorKind::kElsewhere) {
      NoteFailure(outcome.value.status());
    } else {
      return Finish(
          Annotate(outcome.value.status(), absl::StrCat("login of user ", client_.options_.user)));
    }
    Step();
  }

  void OnAnswer(EtcdOutcome<EtcdAnswer> outcome, const std::string& token) {
    if (outcome.value.ok()) {
      client_.preferred_.store(next_ % client_.endpoints_.size(), std::memory_order_relaxed);
      return Finish(std::move(outcome.value));
    }
    switch (outcome.kind) {
      case EtcdErrorKind::kFinal: return Finish(outcome.value.status());
      case EtcdErrorKind::kElsewhere: NoteFailure(outcome.value.status()); break;
      case EtcdErrorKind::kLogin:
        // Once: a fresh token that is refused, too, is no matter of its age.
        if (client_.options_.user.empty() || has_logged_in_) return Finish(outcome.value.status());
        has_logged_in_ = true;
        client_.DropToken(token);
        break;
    }
    Step();
  }

  void NoteFailure(const absl::Status& status) {
    if (last_failure_.ok()) {
      last_failure_ = status;
    } else {  // the code and the hint of the last, the words of all
      absl::Status all(status.code(),
                       absl::StrCat(last_failure_.message(), "; ", status.message()));
      if (const auto detail = DetailOf(status)) all = WithDetail(all, *detail);
      last_failure_ = std::move(all);
    }
    // The next call need not find out again.
    client_.preferred_.store((next_ + 1) % client_.endpoints_.size(), std::memory_order_relaxed);
    ++next_;
    --left_;
  }

  absl::Status Exhausted() const {
    if (!last_failure_.ok()) return last_failure_;
    return MakeError(absl::StatusCode::kDeadlineExceeded, ErrorReason::kDeadline,
                     "no time was left to ask etcd");
  }

  void Finish(absl::StatusOr<EtcdAnswer> answer) {
    std::move(done_)(std::move(answer));
    absl::MutexLock lock(&client_.mutex_);
    --client_.pending_;  // from here on the client may go
  }

  EtcdClient& client_;
  const EtcdRequest request_;
  const absl::Time deadline_;
  size_t next_;
  size_t left_;
  bool has_logged_in_ = false;
  absl::Status last_failure_;
  Done done_;
};

absl::StatusOr<std::unique_ptr<EtcdClient>> EtcdClient::Create(EtcdOptions options,
                                                               const Clock& clock, Logger& logger) {
  RETURN_IF_ERROR(Validate(options));
  ASSIGN_OR_RETURN(const EtcdTls tls, ReadTls(options));
  if (!options.user.empty()) {
    RETURN_IF_ERROR(ReadPassword(options.password_file).status());
    if (tls.ca.empty()) {
      logger.Warn("the password for etcd goes over the network in the clear",
                  {{"hint", "turn on TLS in etcd and set its CA"}});
    }
  }
  return std::unique_ptr<EtcdClient>(new EtcdClient(std::move(options), tls, clock, logger));
}

EtcdClient::EtcdClient(EtcdOptions options, const EtcdTls& tls, const Clock& clock, Logger& logger)
    : options_(std::move(options)),
      clock_(clock),
      logger_(logger),
      needs_login_(!options_.user.empty()) {
  for (const std::string& address : options_.endpoints) {
    endpoints_.push_back(std::make_unique<EtcdEndpoint>(address, tls));
  }
}

EtcdClient::~EtcdClient() {
  {
    absl::MutexLock lock(&mutex_);
    is_stopping_ = true;
  }
  for (const auto& endpoint : endpoints_) endpoint->CancelAll();
  absl::MutexLock lock(&mutex_);
  const auto is_idle = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return pending_ == 0; };
  mutex_.Await(absl::Condition(&is_idle));
}

void EtcdClient::Call(EtcdRequest request, absl::Duration timeout, Done done) {
  {
    absl::MutexLock lock(&mutex_);
    ++pending_;
  }
  std::make_shared<Pending>(*this, std::move(request), timeout, std::move(done))->Step();
}

bool EtcdClient::is_stopping() const {
  absl::MutexLock lock(&mutex_);
  return is_stopping_;
}

std::optional<std::string> EtcdClient::Token() const {
  absl::MutexLock lock(&mutex_);
  if (needs_login_ && token_.empty()) return std::nullopt;
  return token_;
}

void EtcdClient::KeepToken(std::string token) {
  absl::MutexLock lock(&mutex_);
  // An empty one would be asked for without end.
  needs_login_ = !token.empty();
  token_ = std::move(token);
}

void EtcdClient::DropToken(const std::string& token) {
  absl::MutexLock lock(&mutex_);
  if (token_ == token) token_.clear();
  needs_login_ = true;
}

void EtcdClient::NoteNoLogin() {
  {
    absl::MutexLock lock(&mutex_);
    if (!needs_login_) return;
    needs_login_ = false;
  }
  logger_.Warn("etcd has authentication off, the user that was set is not used",
               {{"user", options_.user}, {"hint", "etcdctl auth enable"}});
}

}  // namespace moonpool::master
