#include "master/etcd/etcd_endpoint.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <type_traits>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/synchronization/mutex.h"
#include "etcd/rpc.grpc.pb.h"
#include "master/etcd/etcd_wire.h"

namespace moonpool::master {
namespace {

namespace pb = etcdserverpb;

// A member that is cut off swallows the attempt to connect; another one answers meanwhile.
constexpr int kConnectTimeoutMs = 700;
constexpr int kReconnectMsMin = 100;
constexpr int kReconnectMsMax = 1000;
// etcd takes clients that ping more often than every 5 s for hostile.
constexpr int kPingIntervalMs = 10'000;
constexpr int kPingTimeoutMs = 2'000;
// A page of a read. etcd itself takes no request of more than 1.5 MiB.
constexpr int kMessageBytesMax = 64 << 20;

std::shared_ptr<grpc::Channel> Connect(const std::string& address, const EtcdTls& tls) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnectTimeoutMs);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kReconnectMsMin);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kReconnectMsMax);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kPingIntervalMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kPingTimeoutMs);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  // Whether a call is repeated is decided above, where it is known what it does.
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  // A proxy set for the web is not meant for etcd.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetMaxReceiveMessageSize(kMessageBytesMax);
  std::shared_ptr<grpc::ChannelCredentials> credentials =
      tls.ca.empty()
          ? grpc::InsecureChannelCredentials()
          : grpc::SslCredentials(
                {.pem_root_certs = tls.ca, .pem_private_key = tls.key, .pem_cert_chain = tls.cert});
  return grpc::CreateCustomChannel(address, credentials, arguments);
}

grpc::Status Unasked() { return grpc::Status(grpc::StatusCode::UNAVAILABLE, "ended the stream"); }

// The calls under way at one member. A call is added; released, from when on its context may go;
// and gone, once whoever waited for it has been told.
class OpenCalls {
 public:
  void Add(const std::shared_ptr<grpc::ClientContext>& context) {
    absl::MutexLock lock(&mutex_);
    ++count_;
    contexts_.insert(context);
    if (is_cancelled_) context->TryCancel();  // takes effect when the call starts
  }
  void Release(const std::shared_ptr<grpc::ClientContext>& context) {
    absl::MutexLock lock(&mutex_);
    contexts_.erase(context);
  }
  void Gone() {
    absl::MutexLock lock(&mutex_);
    --count_;
  }
  void CancelAll() {
    absl::flat_hash_set<std::shared_ptr<grpc::ClientContext>> contexts;
    {
      absl::MutexLock lock(&mutex_);
      is_cancelled_ = true;
      contexts = contexts_;
    }
    // Not under the lock: the end of a call may be told from within, and takes it.
    for (const auto& context : contexts) context->TryCancel();
  }
  void AwaitNone() {
    absl::MutexLock lock(&mutex_);
    const auto is_none = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return count_ == 0; };
    mutex_.Await(absl::Condition(&is_none));
  }

 private:
  absl::Mutex mutex_;
  bool is_cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  size_t count_ ABSL_GUARDED_BY(mutex_) = 0;
  // Shared with the calls, so that one that ends meanwhile can still be cancelled.
  absl::flat_hash_set<std::shared_ptr<grpc::ClientContext>> contexts_ ABSL_GUARDED_BY(mutex_);
};

// What all calls have in common.
struct CallFrame {
  CallFrame(const std::string& endpoint, OpenCalls& calls, const std::string& token,
            absl::Duration timeout)
      : address(endpoint), open(calls) {
    const int64_t micros =
        absl::ToInt64Microseconds(std::clamp(timeout, absl::ZeroDuration(), absl::Hours(24)));
    context->set_deadline(
        gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_micros(micros, GPR_TIMESPAN)));
    if (!token.empty()) context->AddMetadata("token", token);
    open.Add(context);
  }

  const std::string& address;  // of the endpoint, which waits for its calls
  OpenCalls& open;
  const std::shared_ptr<grpc::ClientContext> context = std::make_shared<grpc::ClientContext>();
};

template <typename Value>
EtcdOutcome<Value> Failure(const std::string& address, const grpc::Status& status) {
  EtcdError error = ExplainEtcdError(address, static_cast<absl::StatusCode>(status.error_code()),
                                     status.error_message());
  return {std::move(error.status), error.kind};
}

// Destroys the call before `done`: the connection must not outlive the endpoint in a context.
template <typename Call, typename Value, typename Done>
void Conclude(std::unique_ptr<Call> call, EtcdOutcome<Value> outcome, Done done) {
  OpenCalls& open = call->frame.open;
  open.Release(call->frame.context);
  call.reset();
  std::move(done)(std::move(outcome));
  open.Gone();
}

template <typename Wire, typename WireAnswer>
struct UnaryCall {
  CallFrame frame;
  Wire wire;
  WireAnswer answer = {};
};

// `start` is a method of a stub's async interface; `read` turns the answer into a StatusOr<Value>.
template <typename Value, typename Wire, typename WireAnswer, typename Stub, typename Read,
          typename Done>
void StartUnary(UnaryCall<Wire, WireAnswer>* call, Stub* stub,
                void (Stub::*start)(grpc::ClientContext*, const Wire*, WireAnswer*,
                                    std::function<void(grpc::Status)>),
                Read read, Done done) {
  const auto shared_done = std::make_shared<Done>(std::move(done));  // std::function copies
  (stub->*start)(call->frame.context.get(), &call->wire, &call->answer,
                 [call, read, shared_done](const grpc::Status& status) {
                   EtcdOutcome<Value> outcome = status.ok()
                                                    ? EtcdOutcome<Value>{read(call->answer)}
                                                    : Failure<Value>(call->frame.address, status);
                   Conclude(std::unique_ptr<UnaryCall<Wire, WireAnswer>>(call), std::move(outcome),
                            std::move(*shared_done));
                 });
}

// A stream that is asked one thing, and ended once that is answered. Owns itself.
template <typename Request, typename Wire, typename WireAnswer>
class StreamCall final : public grpc::ClientBidiReactor<Wire, WireAnswer> {
 public:
  template <typename... FrameParts>
  StreamCall(const Request& request, EtcdEndpoint::CallDone done, FrameParts&&... frame_parts)
      : frame(std::forward<FrameParts>(frame_parts)...),
        request_(request),
        wire_(ToWire(request)),
        done_(std::move(done)) {}

  void Start() {
    this->StartWrite(&wire_);
    this->StartRead(&incoming_);
    this->StartCall();
  }

  CallFrame frame;

 private:
  void OnReadDone(bool ok) override {
    if (!ok) return;
    if (!IsAnswer(incoming_)) return this->StartRead(&incoming_);
    has_answer_ = true;
    frame.context->TryCancel();
  }
  void OnDone(const grpc::Status& status) override {
    EtcdOutcome<EtcdAnswer> outcome =
        has_answer_ ? EtcdOutcome<EtcdAnswer>{FromWire(request_, incoming_)}
                    : Failure<EtcdAnswer>(frame.address, status.ok() ? Unasked() : status);
    EtcdEndpoint::CallDone done = std::move(done_);
    Conclude(std::unique_ptr<StreamCall>(this), std::move(outcome), std::move(done));
  }

  const Request request_;
  const Wire wire_;
  WireAnswer incoming_;
  bool has_answer_ = false;
  EtcdEndpoint::CallDone done_;
};

}  // namespace

struct EtcdEndpoint::Rep {
  explicit Rep(std::shared_ptr<grpc::Channel> to)
      : channel(std::move(to)),
        kv(pb::KV::NewStub(channel)),
        watch(pb::Watch::NewStub(channel)),
        lease(pb::Lease::NewStub(channel)),
        auth(pb::Auth::NewStub(channel)) {}

  const std::shared_ptr<grpc::Channel> channel;
  const std::unique_ptr<pb::KV::Stub> kv;
  const std::unique_ptr<pb::Watch::Stub> watch;
  const std::unique_ptr<pb::Lease::Stub> lease;
  const std::unique_ptr<pb::Auth::Stub> auth;
  OpenCalls open;
};

EtcdEndpoint::EtcdEndpoint(std::string address, const EtcdTls& tls)
    : address_(std::move(address)), rep_(std::make_unique<Rep>(Connect(address_, tls))) {}

EtcdEndpoint::~EtcdEndpoint() {
  CancelAll();
  rep_->open.AwaitNone();
}

void EtcdEndpoint::CancelAll() { rep_->open.CancelAll(); }

// Starts the call that belongs to each request.
struct EtcdEndpoint::Starter {
  template <typename Asked, typename Stub, typename Wire, typename WireAnswer>
  void Unary(const Asked& asked, Stub* stub,
             void (Stub::*start)(grpc::ClientContext*, const Wire*, WireAnswer*,
                                 std::function<void(grpc::Status)>)) {
    auto* call =
        new UnaryCall<Wire, WireAnswer>{{address, rep.open, token, timeout}, ToWire(asked)};
    StartUnary<EtcdAnswer>(
        call, stub, start, [asked](const WireAnswer& wire) { return FromWire(asked, wire); },
        std::move(done));
  }
  template <typename Asked, typename Stub, typename Wire, typename WireAnswer>
  void Stream(const Asked& asked, Stub* stub,
              void (Stub::*start)(grpc::ClientContext*,
                                  grpc::ClientBidiReactor<Wire, WireAnswer>*)) {
    auto* call = new StreamCall<Asked, Wire, WireAnswer>(asked, std::move(done), address, rep.open,
                                                         token, timeout);
    (stub->*start)(call->frame.context.get(), call);
    call->Start();
  }

  void operator()(const EtcdGet& asked) {
    Unary(asked, rep.kv->async(), &pb::KV::Stub::async::Range);
  }
  void operator()(const EtcdTxn& asked) {
    Unary(asked, rep.kv->async(), &pb::KV::Stub::async::Txn);
  }
  void operator()(const EtcdGrantLease& asked) {
    Unary(asked, rep.lease->async(), &pb::Lease::Stub::async::LeaseGrant);
  }
  void operator()(const EtcdRevokeLease& asked) {
    Unary(asked, rep.lease->async(), &pb::Lease::Stub::async::LeaseRevoke);
  }
  void operator()(const EtcdKeepAlive& asked) {
    Stream(asked, rep.lease->async(), &pb::Lease::Stub::async::LeaseKeepAlive);
  }
  void operator()(const EtcdAwaitChange& asked) {
    Stream(asked, rep.watch->async(), &pb::Watch::Stub::async::Watch);
  }

  Rep& rep;
  const std::string& address;
  const std::string& token;
  const absl::Duration timeout;
  CallDone done;
};

void EtcdEndpoint::Call(const EtcdRequest& request, const std::string& token,
                        absl::Duration timeout, CallDone done) {
  std::visit(Starter{*rep_, address_, token, timeout, std::move(done)}, request);
}

void EtcdEndpoint::Login(const std::string& user, const std::string& password,
                         absl::Duration timeout, LoginDone done) {
  auto* call = new UnaryCall<pb::AuthenticateRequest, pb::AuthenticateResponse>{
      {address_, rep_->open, "", timeout}, {}};
  call->wire.set_name(user);
  call->wire.set_password(password);
  StartUnary<std::string>(
      call, rep_->auth->async(), &pb::Auth::Stub::async::Authenticate,
      [](const pb::AuthenticateResponse& wire) -> absl::StatusOr<std::string> {
        return wire.token();
      },
      std::move(done));
}

}  // namespace moonpool::master
