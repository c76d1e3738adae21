// Unary calls: each hands its request to the Handlers of the present reign and is answered when
// they are done with it. A master that does not lead, or may not (R10), answers NOT_LEADER.
//
//   UnaryMethod<&v1::MasterService::AsyncService::RequestLocate, &Handlers::Locate> locate(...);
//   locate.Serve(queue);
#pragma once

#include <google/protobuf/arena.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/async_unary_call.h>

#include <atomic>
#include <memory>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/rpc/grpc/status_convert.h"
#include "master/handlers/handlers.h"
#include "master/handlers/reigns.h"
#include "master/service/arena_pool.h"
#include "master/service/call_queues.h"
#include "master/service/metrics.h"
#include "master/service/shared_handlers.h"

namespace moonpool::master {

// What every service needs; borrowed.
struct ServiceContext {
  SharedHandlers& handlers;
  const Clock& clock;
};

// What gRPC's generated code says of a method.
template <typename Accept>
struct AcceptTraits;
template <typename ServiceType, typename RequestType, typename ResponseType>
struct AcceptTraits<void (ServiceType::*)(
    grpc::ServerContext*, RequestType*, grpc::ServerAsyncResponseWriter<ResponseType>*,
    grpc::CompletionQueue*, grpc::ServerCompletionQueue*, void*)> {
  using Service = ServiceType;
  using Request = RequestType;
  using Response = ResponseType;
};

// A message whose inside lies there, too; or the bytes of one.
template <typename Message>
Message* NewIn(google::protobuf::Arena& arena) {
  if constexpr (std::is_base_of_v<google::protobuf::MessageLite, Message>) {
    return google::protobuf::Arena::CreateMessage<Message>(&arena);
  } else {
    return google::protobuf::Arena::Create<Message>(&arena);
  }
}

// kAccept: RequestX of the service. kHandle: a member of Handlers. Lives longer than the
// queues that it is served on.
template <auto kAccept, auto kHandle>
class UnaryMethod {
 public:
  using Service = typename AcceptTraits<decltype(kAccept)>::Service;
  using Request = typename AcceptTraits<decltype(kAccept)>::Request;
  using Response = typename AcceptTraits<decltype(kAccept)>::Response;

  UnaryMethod(Service& service, const ServiceContext& context, ArenaPool& arenas,
              metrics::Registry& registry, absl::string_view name)
      : service_(service), context_(context), arenas_(arenas), metrics_(registry, name) {}

  // Takes calls from that queue until it is closed.
  void Serve(CallQueues::Queue& queue) {
    queue.Accept(
        [&](grpc::ServerCompletionQueue& accepting) { new Call(*this, queue, accepting); });
  }

 private:
  class Call;

  Service& service_;
  const ServiceContext context_;
  ArenaPool& arenas_;
  RpcMetrics metrics_;
};

// Owns itself. On the threads of the queues, and whichever ends a call that waits; never blocks but
// for the lock.
template <auto kAccept, auto kHandle>
class UnaryMethod<kAccept, kHandle>::Call {
 public:
  Call(UnaryMethod& method, CallQueues::Queue& queue, grpc::ServerCompletionQueue& accepting)
      : method_(method),
        handlers_(method.context_.handlers),
        queue_(queue),
        arena_(method.arenas_.Take()),
        request_(NewIn<Request>(arena_->arena())),
        response_(NewIn<Response>(arena_->arena())) {
    server_context_.AsyncNotifyWhenDone(&ended_);
    (method.service_.*kAccept)(&server_context_, request_, &responder_, &accepting, &accepting,
                               &arrived_);
  }
  ~Call() { ArenaPool::Lease::End(std::move(arena_)); }

 private:
  template <void (Call::*kReaction)(bool)>
  class Step final : public CallStep {
   public:
    explicit Step(Call* call) : call_(call) {}
    void Happen(bool is_ok) override { (call_->*kReaction)(is_ok); }

   private:
    Call* const call_;
  };

  void OnArrived(bool is_ok) {
    if (!is_ok) {  // the server stops, and nothing else will happen
      delete this;
      return;
    }
    queue_.CallBegins();
    method_.Serve(queue_);  // the next one
    handlers_.CallBegins();
    started_at_ = method_.context_.clock.Now();
    Run();
  }

  void Run() {
    handlers_.Run([&](Reigns& reigns, absl::Time now) {
      const absl::StatusOr<Reigns::Admission> admission = reigns.Admit(now);
      if (!admission.ok()) return End(admission.status());
      reign_ = admission->reign;
      Handlers& handlers = *admission->handlers;
      Done<Response> done(response_, [this](absl::Status status) { End(std::move(status)); });
      using Result = std::invoke_result_t<decltype(kHandle), Handlers&, const Request&, absl::Time,
                                          Done<Response>>;
      if constexpr (std::is_same_v<Result, CallId>) {
        waiting_ = (handlers.*kHandle)(*request_, now, std::move(done));
      } else {
        (handlers.*kHandle)(*request_, now, std::move(done));
      }
    });
  }

  // Under the lock of handlers_.
  void End(absl::Status status) {
    status_ = std::move(status);
    handlers_.Post([this] { Answer(); });
  }

  void Answer() {
    const Clock& clock = method_.context_.clock;
    // The last look before the wire. What slips through behind it is harmless: a lease counts from
    // when its client asked, and what was committed is in the journals of nodes.
    if (reign_ != Reign{} && !handlers_.MayAnswer(reign_, clock.Now())) {
      handlers_.Run([this](Reigns& reigns, absl::Time) { status_ = reigns.Refusal(); });
    }
    if (ReasonOf(status_) == ErrorReason::kNotLeader) handlers_.CountRefusal();
    method_.metrics_.Record(static_cast<int>(status_.code()), clock.Now() - started_at_);
    // Finishing is the last use of *this here.
    if (status_.ok()) {
      responder_.Finish(*response_, grpc::Status::OK, &finished_);
    } else {
      responder_.FinishWithError(ToGrpc(status_), &finished_);
    }
  }

  void OnFinished(bool) { Leave(); }

  // The call is over, one way or the other.
  void OnEnded(bool) {
    if (server_context_.IsCancelled()) {
      handlers_.Run([this](Reigns& reigns, absl::Time now) {
        Handlers* const handlers = reigns.Find(reign_);
        if (handlers != nullptr) handlers->Cancel(waiting_, now);
      });
    }
    Leave();
  }

  void Leave() {
    if (things_to_come_.fetch_sub(1, std::memory_order_acq_rel) > 1) return;
    SharedHandlers& handlers = handlers_;
    CallQueues::Queue& queue = queue_;
    delete this;
    handlers.CallEnded();
    queue.CallEnded();
  }

  UnaryMethod& method_;
  SharedHandlers& handlers_;
  CallQueues::Queue& queue_;
  std::unique_ptr<ArenaPool::Lease> arena_;
  Request* const request_;
  Response* const response_;  // under the lock of handlers_, until Answer is posted
  grpc::ServerContext server_context_;
  grpc::ServerAsyncResponseWriter<Response> responder_{&server_context_};
  Step<&Call::OnArrived> arrived_{this};
  Step<&Call::OnFinished> finished_{this};
  Step<&Call::OnEnded> ended_{this};
  absl::Time started_at_;
  // Under the lock of handlers_, until Answer is posted.
  absl::Status status_;
  Reign reign_;  // in which the request was taken; none: it was not
  CallId waiting_;
  std::atomic<int> things_to_come_ = 2;  // of OnFinished and OnEnded
};

}  // namespace moonpool::master
