#include "master/service/event_service.h"

#include <grpcpp/support/async_stream.h>

#include <memory>
#include <utility>

#include "common/error.h"
#include "common/rpc/grpc/status_convert.h"
#include "common/status_macros.h"
#include "master/service/stream_call.h"

namespace moonpool::master {
namespace {

// One stream. On the thread of its queue and, when there is news, on the timer's; the lock of the
// handlers serialises all. Owns itself. Finish is never decided while a write is under way, so
// nothing that was posted outlives the call.
class WatchCall final : public StreamCall {
 public:
  WatchCall(WatchService& service, CallQueues::Queue& queue, grpc::ServerCompletionQueue& accepting)
      : StreamCall(queue), service_(service), handlers_(service.handlers()) {
    service.wire().RequestWatch(&context(), &request_, &stream_, &accepting, &accepting,
                                ArrivalTag());
  }

 private:
  void OnArrived() override {
    service_.Serve(queue());  // the next one
    handlers_.CallBegins();
    started_at_ = service_.clock().Now();
    absl::Status status;
    handlers_.Run([&](Reigns& reigns, absl::Time now) {
      status = Open(reigns, now);
      is_finishing_ = !status.ok();
      Advance(now);
    });
    if (!status.ok()) End(status);
  }

  void OnWriteDone(bool ok) override {
    handlers_.Run([&](Reigns&, absl::Time now) {
      is_writing_ = false;
      has_gone_ = has_gone_ || !ok;
      watcher_->Sent(now);
      Advance(now);
    });
  }

  void OnCancel() override {
    handlers_.Run([&](Reigns&, absl::Time now) {
      has_gone_ = true;
      Advance(now);  // a write under way fails first
    });
  }

  void OnDone() override {
    // Under the lock: it leaves the table.
    handlers_.Run([&](Reigns&, absl::Time) { watcher_.reset(); });
    SharedHandlers& handlers = handlers_;
    delete this;
    handlers.CallEnded();
  }

  // Under the lock.
  absl::Status Open(Reigns& reigns, absl::Time now) {
    ASSIGN_OR_RETURN(const Reigns::Admission admission, reigns.Admit(now));
    reign_ = admission.reign;
    ASSIGN_OR_RETURN(watcher_, admission.handlers->Watch(
                                   request_, [this] { Advance(service_.clock().Now()); }, now));
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
    handlers_.Post([this] { stream_.Write(outgoing_, WriteTag()); });
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
      context().TryCancel();
      handlers_.Run([this](Reigns&, absl::Time now) {
        is_cutting_ = false;
        Advance(now);
      });
    });
  }

  void End(const absl::Status& status) {
    if (ReasonOf(status) == ErrorReason::kNotLeader) handlers_.CountRefusal();
    service_.RecordEnd(status, started_at_);
    stream_.Finish(ToGrpc(status), FinishTag());  // the last use of *this
  }

  WatchService& service_;
  SharedHandlers& handlers_;
  grpc::ServerAsyncWriter<v1::EventBatch> stream_{&context()};
  absl::Time started_at_;
  v1::WatchRequest request_;
  v1::EventBatch outgoing_;  // the write's

  // Under the lock.
  Reign reign_;
  std::unique_ptr<Watcher> watcher_;
  bool is_writing_ = false;
  bool has_gone_ = false;    // the client
  bool is_cutting_ = false;  // TryCancel is under way
  bool was_cut_ = false;
  bool is_finishing_ = false;
};

}  // namespace

void WatchService::Serve(CallQueues::Queue& queue) {
  queue.Accept(
      [&](grpc::ServerCompletionQueue& accepting) { new WatchCall(*this, queue, accepting); });
}

void WatchService::RecordEnd(const absl::Status& status, absl::Time started_at) {
  metrics_.Record(static_cast<int>(status.code()), clock().Now() - started_at);
}

}  // namespace moonpool::master
