#include "master/service/event_service.h"

#include <atomic>
#include <memory>
#include <utility>

#include "common/check.h"
#include "common/error.h"
#include "common/rpc/grpc/status_convert.h"
#include "common/status_macros.h"

namespace moonpool::master {
namespace {

// One stream. On gRPC's threads and, when there is news, on the timer's; the lock of the handlers
// serialises all. Owns itself. At most one write and one Finish are under way; Finish is never
// decided while a write is, so nothing that was posted outlives the reactor.
class WatchReactor final : public grpc::ServerWriteReactor<v1::EventBatch> {
 public:
  WatchReactor(WatchService& service, grpc::CallbackServerContext& context)
      : service_(service),
        handlers_(service.handlers()),
        context_(context),
        started_at_(service.clock().Now()) {
    handlers_.CallBegins();
  }

  void Start(const v1::WatchRequest& request) {
    absl::Status status;
    handlers_.Run([&](Reigns& reigns, absl::Time now) {
      status = Open(request, reigns, now);
      is_finishing_ = !status.ok();
      Advance(now);
    });
    if (!status.ok()) End(status);
  }

 private:
  void OnWriteDone(bool ok) override {
    handlers_.Run([&](Reigns&, absl::Time now) {
      is_writing_ = false;
      has_gone_ = has_gone_ || !ok;
      watcher_->Sent(now);
      Advance(now);
    });
    steps_.fetch_add(1, std::memory_order_release);
  }

  void OnCancel() override {
    handlers_.Run([&](Reigns&, absl::Time now) {
      has_gone_ = true;
      Advance(now);  // a write under way fails first
    });
    steps_.fetch_add(1, std::memory_order_release);
  }

  void OnDone() override {
    MP_CHECK(steps_.load(std::memory_order_acquire) > 0, "a stream ended without a status");
    // Under the lock: it leaves the table.
    handlers_.Run([&](Reigns&, absl::Time) { watcher_.reset(); });
    SharedHandlers& handlers = handlers_;
    delete this;
    handlers.CallEnded();
  }

  // Under the lock.
  absl::Status Open(const v1::WatchRequest& request, Reigns& reigns, absl::Time now) {
    ASSIGN_OR_RETURN(const Reigns::Admission admission, reigns.Admit(now));
    reign_ = admission.reign;
    ASSIGN_OR_RETURN(watcher_, admission.handlers->Watch(
                                   request, [this] { Advance(service_.clock().Now()); }, now));
    return absl::OkStatus();
  }

  // The next step of the stream, if one is due. Under the lock, any thread.
  void Advance(absl::Time now) {
    if (watcher_ == nullptr || is_finishing_ || is_cutting_) return;
    if (is_writing_) {
      if (watcher_->is_ended()) CutOff();
      return;
    }
    if (watcher_->is_ended()) return FinishWith(watcher_->end_status());
    if (has_gone_) return FinishWith(absl::CancelledError("the caller has gone"));
    // The last look before the wire (R10); the timer finds the same a moment later.
    if (!handlers_.MayAnswer(reign_, now)) return;
    if (!watcher_->TakeMessage(now, &outgoing_)) return;
    is_writing_ = true;
    handlers_.Post([this] { StartWrite(&outgoing_); });
  }

  void FinishWith(const absl::Status& status) {
    is_finishing_ = true;
    handlers_.Post([this, status] { End(status); });
  }

  // The client takes nothing: the write under way ends only with the stream.
  void CutOff() {
    if (std::exchange(was_cut_, true)) return;
    is_cutting_ = true;
    handlers_.Post([this] {
      context_.TryCancel();
      handlers_.Run([this](Reigns&, absl::Time now) {
        is_cutting_ = false;
        Advance(now);
      });
    });
  }

  void End(const absl::Status& status) {
    if (ReasonOf(status) == ErrorReason::kNotLeader) handlers_.CountRefusal();
    service_.RecordEnd(status, started_at_);
    grpc::Status end = ToGrpc(status);
    steps_.fetch_add(1, std::memory_order_release);
    Finish(std::move(end));  // the last use of *this
  }

  WatchService& service_;
  SharedHandlers& handlers_;
  grpc::CallbackServerContext& context_;
  const absl::Time started_at_;
  v1::EventBatch outgoing_;  // the write's

  // Under the lock.
  Reign reign_;
  std::unique_ptr<Watcher> watcher_;
  bool is_writing_ = false;
  bool has_gone_ = false;    // the client
  bool is_cutting_ = false;  // TryCancel is under way
  bool was_cut_ = false;
  bool is_finishing_ = false;

  // gRPC calls OnDone after the other reactions and Finish; this says it once more for those who
  // cannot see how (ThreadSanitizer).
  std::atomic<int> steps_ = 0;
};

}  // namespace

grpc::ServerWriteReactor<v1::EventBatch>* WatchService::Watch(grpc::CallbackServerContext* context,
                                                              const v1::WatchRequest* request) {
  auto* reactor = new WatchReactor(*this, *context);
  reactor->Start(*request);
  return reactor;
}

void WatchService::RecordEnd(const absl::Status& status, absl::Time started_at) {
  metrics_.Record(static_cast<int>(status.code()), clock().Now() - started_at);
}

}  // namespace moonpool::master
