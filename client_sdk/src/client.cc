#include "moonpool/client.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "client_sdk/core/core_client.h"
#include "client_sdk/src/client_waiter.h"
#include "client_sdk/src/executor.h"
#include "client_sdk/src/grpc_master_stub.h"
#include "common/clock.h"
#include "common/host_id.h"
#include "common/log.h"
#include "common/names.h"
#include "common/random.h"
#include "common/status_macros.h"
#include "transport/shm/shm_transport.h"
#include "transport/tcp/tcp_transport.h"

namespace moonpool {
namespace {

absl::Status BadOption(absl::string_view message) {
  return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kBadArgument, message);
}

absl::Status Validate(const ClientOptions& options) {
  if (options.masters.empty()) return BadOption("masters names no master");
  for (const std::string& master : options.masters) {
    if (master.find(':') == std::string::npos) {
      return BadOption(absl::StrCat("masters: \"", master, "\" is not host:port"));
    }
  }
  // What is no text would make every message that carries it unreadable.
  RETURN_IF_ERROR(CheckPartNamespace({options.name_space, options.fingerprint}));
  RETURN_IF_ERROR(CheckLabel("host_id", options.host_id));
  if (options.timeout <= absl::ZeroDuration()) return BadOption("timeout is not positive");
  if (options.async_threads < 1 || options.async_threads > 256) {
    return BadOption("async_threads is not in 1 to 256");
  }
  if (options.tcp_streams < 1 || options.tcp_streams > 64) {
    return BadOption("tcp_streams is not in 1 to 64");
  }
  return absl::OkStatus();
}

// Log lines to the caller's function.
class WarningSink final : public LogSink {
 public:
  explicit WarningSink(std::function<void(absl::string_view)> on_warning)
      : on_warning_(std::move(on_warning)) {}
  void Write(LogLevel, absl::string_view message, LogFields fields) override {
    on_warning_(FormatLogText(message, fields));
  }

 private:
  const std::function<void(absl::string_view)> on_warning_;
};

// The outcome of an asynchronous call that did not run.
absl::Status NotRun(bool is_stopping) {
  if (is_stopping) {
    return MakeError(absl::StatusCode::kCancelled, ErrorReason::kShuttingDown,
                     "the client is being destroyed");
  }
  return MakeError(absl::StatusCode::kResourceExhausted, ErrorReason::kLimitReached,
                   "too many asynchronous calls wait",
                   {.hint = "raise ClientOptions::async_queue or wait for some to end"});
}

// The engine needs its processors, too.
size_t DriverThreads() { return std::clamp(std::thread::hardware_concurrency() / 2, 1u, 4u); }

}  // namespace

struct Client::Rep {
  explicit Rep(const ClientOptions& options);

  // Runs `call` on a thread of the client and `done` with its result; or with what `refuse` makes
  // of the reason why it cannot.
  template <typename Call, typename Refuse, typename Done>
  void Post(Call call, Refuse refuse, Done done);

  client::SessionOptions SessionOptionsOf(const ClientOptions& options);

  // The options of a call that was asked for at `asked`: time spent in the queue counts.
  CallOptions Left(CallOptions call, absl::Time asked) const {
    const absl::Duration given = call.timeout == absl::ZeroDuration() ? timeout : call.timeout;
    call.timeout = std::max(absl::Nanoseconds(1), asked + given - clock.Now());
    return call;
  }

  const uint64_t client_id = EntropySeed() | 1;
  const std::string host_id;
  const absl::Duration timeout;
  SteadyClock clock;
  WarningSink sink;
  Logger logger;
  client::ClientWaiter waiter{clock};
  client::GrpcMasterStub master;
  // Before `core`, which has channels of theirs.
  std::unique_ptr<transport::Transport> shm, tcp;
  client::CoreClient core;
  // Every blocking call holds it shared: the destructor waits for those that still run.
  absl::Mutex running;
  client::Executor executor;
};

Client::Rep::Rep(const ClientOptions& options)
    : host_id(options.host_id.empty() ? LocalHostId() : options.host_id),
      timeout(options.timeout),
      sink(options.on_warning),
      logger(options.on_warning ? Logger(sink, LogLevel::kWarn)
                                : Logger({.level = LogLevel::kWarn}, "moonpool-client")),
      master(options.masters, clock, {.waits_for_lone_master = options.wait_for_master}),
      shm(transport::NewShmTransport(
          {.host_id = host_id, .client_id = client_id, .trusted_uids = options.trusted_uids},
          clock)),
      tcp(transport::NewTcpTransport({.streams = static_cast<size_t>(options.tcp_streams),
                                      .driver_threads = DriverThreads(),
                                      .congestion_control = options.tcp_congestion_control,
                                      .client_id = client_id},
                                     clock)),
      core(master, waiter, logger, SessionOptionsOf(options)),
      executor(options.async_threads, options.async_queue) {}

client::SessionOptions Client::Rep::SessionOptionsOf(const ClientOptions& options) {
  client::SessionOptions session = {.name_space = options.name_space,
                                    .client_id = client_id,
                                    .seed = EntropySeed(),
                                    .verify = options.verify,
                                    .timeout = options.timeout,
                                    .wait_for_master = options.wait_for_master,
                                    .location_cache_entries = options.location_cache_entries};
  session.peers.host_id = host_id;
  if (options.path != Path::kTcp) session.peers.paths.push_back({shm.get(), true});
  if (options.path != Path::kShm) session.peers.paths.push_back({tcp.get(), false});
  return session;
}

template <typename Call, typename Refuse, typename Done>
void Client::Rep::Post(Call call, Refuse refuse, Done done) {
  const bool is_taken = executor.Post([call = std::move(call), refuse, done](bool is_stopping) {
    if (is_stopping) {
      done(refuse(NotRun(/*is_stopping=*/true)));
    } else {
      done(call());
    }
  });
  if (!is_taken) done(refuse(NotRun(/*is_stopping=*/false)));
}

absl::StatusOr<std::unique_ptr<Client>> Client::Connect(ClientOptions options,
                                                        const CancelToken& cancel) {
  RETURN_IF_ERROR(Validate(options));
  auto rep = std::make_unique<Rep>(options);
  RETURN_IF_ERROR(
      rep->core.OpenNamespace(options.fingerprint, {.timeout = options.timeout, .cancel = cancel}));
  return std::unique_ptr<Client>(new Client(std::move(rep)));
}

Client::Client(std::unique_ptr<Rep> rep) : rep_(std::move(rep)) {}

Client::~Client() {
  rep_->executor.Stop();
  absl::MutexLock all_ended(&rep_->running);
  rep_->core.Close();
}

absl::Status Client::Put(absl::string_view key, ConstBuffer value, const PutOptions& options) {
  return Put({.key = std::string(key), .value = {value}}, options);
}

absl::Status Client::Put(absl::string_view key, absl::string_view value,
                         const PutOptions& options) {
  const auto* const bytes = reinterpret_cast<const std::byte*>(value.data());
  return Put(key, ConstBuffer(bytes, value.size()), options);
}

absl::Status Client::Put(const PutItem& item, const PutOptions& options) {
  return PutMany({&item, 1}, options).front();
}

std::vector<absl::Status> Client::PutMany(absl::Span<const PutItem> items,
                                          const PutOptions& options) {
  absl::ReaderMutexLock call(&rep_->running);
  return rep_->core.PutMany(items, options);
}

absl::StatusOr<size_t> Client::Get(absl::string_view key, MutableBuffer into,
                                   const GetOptions& options) {
  const GetItem item = {.key = std::string(key), .into = {into}};
  return GetMany({&item, 1}, options).front();
}

absl::StatusOr<std::string> Client::Get(absl::string_view key, const GetOptions& options) {
  absl::ReaderMutexLock call(&rep_->running);
  return rep_->core.Get(key, options);
}

std::vector<absl::StatusOr<size_t>> Client::GetMany(absl::Span<const GetItem> items,
                                                    const GetOptions& options) {
  absl::ReaderMutexLock call(&rep_->running);
  return rep_->core.GetMany(items, options);
}

std::vector<absl::StatusOr<size_t>> Client::GetMany(absl::Span<const std::string> keys,
                                                    Allocate allocate, const GetOptions& options) {
  absl::ReaderMutexLock call(&rep_->running);
  return rep_->core.GetMany(keys, allocate, options);
}

absl::StatusOr<View> Client::GetView(absl::string_view key, const GetOptions& options) {
  absl::ReaderMutexLock call(&rep_->running);
  return rep_->core.GetView(key, options);
}

std::vector<absl::StatusOr<View>> Client::GetViewMany(absl::Span<const std::string> keys,
                                                      const GetOptions& options) {
  absl::ReaderMutexLock call(&rep_->running);
  return rep_->core.GetViewMany(keys, options);
}

std::vector<absl::Status> Client::Exists(absl::Span<const std::string> keys,
                                         const CallOptions& options) {
  absl::ReaderMutexLock call(&rep_->running);
  return rep_->core.Exists(keys, options);
}

absl::StatusOr<PrefixMatch> Client::MatchPrefix(absl::Span<const std::string> keys,
                                                const MatchOptions& options) {
  absl::ReaderMutexLock call(&rep_->running);
  return rep_->core.MatchPrefix(keys, options);
}

std::vector<absl::StatusOr<Description>> Client::Describe(absl::Span<const std::string> keys,
                                                          const CallOptions& options) {
  absl::ReaderMutexLock call(&rep_->running);
  return rep_->core.Describe(keys, options);
}

absl::StatusOr<KeyPage> Client::ListKeys(absl::string_view prefix, const ListOptions& options) {
  absl::ReaderMutexLock call(&rep_->running);
  return rep_->core.ListKeys(prefix, options);
}

std::vector<absl::Status> Client::Remove(absl::Span<const std::string> keys,
                                         const CallOptions& options) {
  absl::ReaderMutexLock call(&rep_->running);
  return rep_->core.Remove(keys, options);
}

void Client::PutManyAsync(std::vector<PutItem> items, PutOptions options,
                          std::function<void(std::vector<absl::Status>)> done) {
  const size_t count = items.size();
  rep_->Post(
      [this, items = std::move(items), options = std::move(options), asked = rep_->clock.Now()] {
        PutOptions left = options;
        left.call = rep_->Left(options.call, asked);
        return PutMany(items, left);
      },
      [count](const absl::Status& why) { return std::vector<absl::Status>(count, why); },
      std::move(done));
}

void Client::GetManyAsync(std::vector<GetItem> items, GetOptions options,
                          std::function<void(std::vector<absl::StatusOr<size_t>>)> done) {
  const size_t count = items.size();
  rep_->Post(
      [this, items = std::move(items), options = std::move(options), asked = rep_->clock.Now()] {
        GetOptions left = options;
        left.call = rep_->Left(options.call, asked);
        return GetMany(items, left);
      },
      [count](const absl::Status& why) { return std::vector<absl::StatusOr<size_t>>(count, why); },
      std::move(done));
}

void Client::GetViewAsync(std::string key, GetOptions options,
                          std::function<void(absl::StatusOr<View>)> done) {
  rep_->Post(
      [this, key = std::move(key), options = std::move(options), asked = rep_->clock.Now()] {
        GetOptions left = options;
        left.call = rep_->Left(options.call, asked);
        return GetView(key, left);
      },
      [](const absl::Status& why) { return absl::StatusOr<View>(why); }, std::move(done));
}

void Client::ExistsAsync(std::vector<std::string> keys, CallOptions options,
                         std::function<void(std::vector<absl::Status>)> done) {
  const size_t count = keys.size();
  rep_->Post([this, keys = std::move(keys), options = std::move(options),
              asked = rep_->clock.Now()] { return Exists(keys, rep_->Left(options, asked)); },
             [count](const absl::Status& why) { return std::vector<absl::Status>(count, why); },
             std::move(done));
}

void Client::MatchPrefixAsync(std::vector<std::string> keys, MatchOptions options,
                              std::function<void(absl::StatusOr<PrefixMatch>)> done) {
  rep_->Post(
      [this, keys = std::move(keys), options = std::move(options), asked = rep_->clock.Now()] {
        MatchOptions left = options;
        left.call = rep_->Left(options.call, asked);
        return MatchPrefix(keys, left);
      },
      [](const absl::Status& why) { return absl::StatusOr<PrefixMatch>(why); }, std::move(done));
}

void Client::RemoveAsync(std::vector<std::string> keys, CallOptions options,
                         std::function<void(std::vector<absl::Status>)> done) {
  const size_t count = keys.size();
  rep_->Post([this, keys = std::move(keys), options = std::move(options),
              asked = rep_->clock.Now()] { return Remove(keys, rep_->Left(options, asked)); },
             [count](const absl::Status& why) { return std::vector<absl::Status>(count, why); },
             std::move(done));
}

ClientStats Client::stats() const { return rep_->core.stats(); }

}  // namespace moonpool
