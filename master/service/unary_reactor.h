// One unary call: hands the request to the Handlers of the present reign and finishes when they are
// done with it. A master that does not lead, or may not (R10), answers NOT_LEADER.
#pragma once

#include <grpcpp/support/server_callback.h>

#include <atomic>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/check.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/rpc/grpc/status_convert.h"
#include "master/handlers/handlers.h"
#include "master/handlers/reigns.h"
#include "master/service/metrics.h"
#include "master/service/shared_handlers.h"

namespace moonpool::master {

// What every service needs; borrowed.
struct ServiceContext {
  SharedHandlers& handlers;
  const Clock& clock;
};

// On gRPC's threads; never blocks but for the lock. Owns itself.
template <typename Response>
class UnaryReactor final : public grpc::ServerUnaryReactor {
 public:
  // `method` is a member of Handlers. `request` and `response` live until OnDone.
  template <typename Request, typename Method>
  static UnaryReactor* Start(const ServiceContext& context, RpcMetrics& metrics, Method method,
                             const Request* request, Response* response) {
    auto* reactor = new UnaryReactor(context, metrics, response);
    reactor->Call(method, *request);
    return reactor;
  }

 private:
  UnaryReactor(const ServiceContext& context, RpcMetrics& metrics, Response* response)
      : handlers_(context.handlers),
        clock_(context.clock),
        metrics_(metrics),
        response_(response),
        started_at_(clock_.Now()) {
    handlers_.CallBegins();
  }

  template <typename Request, typename Method>
  void Call(Method method, const Request& request) {
    handlers_.Run([&](Reigns& reigns, absl::Time now) {
      const absl::StatusOr<Reigns::Admission> admission = reigns.Admit(now);
      if (!admission.ok()) {
        status_ = admission.status();
        handlers_.Post([this] { Answer(); });
        return;
      }
      reign_ = admission->reign;
      Handlers& handlers = *admission->handlers;
      Done<Response> done(response_, [this](absl::Status status) {
        status_ = std::move(status);
        handlers_.Post([this] { Answer(); });
      });
      using Result =
          std::invoke_result_t<Method, Handlers&, const Request&, absl::Time, Done<Response>>;
      if constexpr (std::is_same_v<Result, CallId>) {
        waiting_ = (handlers.*method)(request, now, std::move(done));
      } else {
        (handlers.*method)(request, now, std::move(done));
      }
    });
  }

  void Answer() {
    // The last look before the wire. What slips through behind it is harmless: a lease counts from
    // when its client asked, and what was committed is in the journals of nodes.
    if (reign_ != Reign{} && !handlers_.MayAnswer(reign_, clock_.Now())) {
      handlers_.Run([this](Reigns& reigns, absl::Time) { status_ = reigns.Refusal(); });
    }
    if (ReasonOf(status_) == ErrorReason::kNotLeader) handlers_.CountRefusal();
    metrics_.Record(static_cast<int>(status_.code()), clock_.Now() - started_at_);
    grpc::Status status = ToGrpc(status_);
    steps_.fetch_add(1, std::memory_order_release);
    Finish(std::move(status));  // the last use of *this
  }

  void OnCancel() override {
    handlers_.Run([this](Reigns& reigns, absl::Time now) {
      Handlers* const handlers = reigns.Find(reign_);
      if (handlers != nullptr) handlers->Cancel(waiting_, now);
    });
    steps_.fetch_add(1, std::memory_order_release);
  }
  void OnDone() override {
    MP_CHECK(steps_.load(std::memory_order_acquire) > 0, "a call ended without an answer");
    SharedHandlers& handlers = handlers_;
    delete this;
    handlers.CallEnded();
  }

  SharedHandlers& handlers_;
  const Clock& clock_;
  RpcMetrics& metrics_;
  Response* const response_;  // under the lock of handlers_, until Answer is posted
  const absl::Time started_at_;
  // Under the lock of handlers_, until Answer is posted.
  absl::Status status_;
  Reign reign_;  // in which the request was taken; none: it was not
  CallId waiting_;
  // gRPC calls OnDone after the other reactions and Finish; this says it once more for those who
  // cannot see how (ThreadSanitizer).
  std::atomic<int> steps_ = 0;
};

}  // namespace moonpool::master
