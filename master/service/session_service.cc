#include "master/service/session_service.h"

#include <grpcpp/support/async_stream.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "common/check.h"
#include "common/error.h"
#include "common/rpc/grpc/status_convert.h"
#include "common/rpc/status_proto.h"
#include "common/status_macros.h"
#include "master/service/stream_call.h"

namespace moonpool::master {
namespace {

// One stream. On the thread of its queue and, when others have messages for its node, on theirs;
// the lock of the handlers serialises all. Owns itself. Finish is never decided while a write is
// under way, so nothing that was posted outlives the call.
class SessionCall final : public StreamCall {
 public:
  SessionCall(SessionService& service, CallQueues::Queue& queue,
              grpc::ServerCompletionQueue& accepting)
      : StreamCall(queue), service_(service), handlers_(service.handlers()) {
    service.wire().RequestSession(&context(), &stream_, &accepting, &accepting, ArrivalTag());
  }

 private:
  void OnArrived() override {
    service_.Serve(queue());  // the next one
    handlers_.CallBegins();
    peer_ = context().peer();
    started_at_ = service_.clock().Now();
    absl::Status status;
    handlers_.Run([&](Reigns& reigns, absl::Time now) {
      status = Open(reigns, now);
      is_finishing_ = !status.ok();
    });
    if (status.ok()) {
      stream_.Read(&incoming_, ReadTag());
    } else if (ReasonOf(status) == ErrorReason::kNotLeader) {
      Refuse(status);
    } else {
      End(status);
    }
  }

  void OnReadDone(bool ok) override {
    bool reads_on = false;
    handlers_.Run([&](Reigns& reigns, absl::Time now) {
      if (ok) {
        Take(HandlersOf(reigns), now);
      } else {
        HandlersOf(reigns).CloseSession(*session_, now);
      }
      Advance();
      reads_on = ok && !is_finishing_;
    });
    // The call is there until this reaction has returned, so another thread's Finish in between
    // only makes the read fail.
    if (reads_on) stream_.Read(&incoming_, ReadTag());
  }

  void OnWriteDone(bool ok) override {
    handlers_.Run([&](Reigns& reigns, absl::Time now) {
      is_writing_ = false;
      if (!ok) HandlersOf(reigns).CloseSession(*session_, now);
      Advance();
    });
  }

  void OnCancel() override {
    handlers_.Run([&](Reigns& reigns, absl::Time now) {
      if (session_ == nullptr) return;
      HandlersOf(reigns).CloseSession(*session_, now);
      Advance();
    });
  }

  void OnDone() override {
    handlers_.Run([&](Reigns& reigns, absl::Time now) {
      if (session_ == nullptr) return;
      HandlersOf(reigns).CloseSession(*session_, now);
      session_.reset();  // under the lock: it leaves the table
    });
    SharedHandlers& handlers = handlers_;
    delete this;
    handlers.CallEnded();
  }

  // Under the lock.
  absl::Status Open(Reigns& reigns, absl::Time now) {
    ASSIGN_OR_RETURN(const Reigns::Admission admission, reigns.Admit(now));
    reign_ = admission.reign;
    ASSIGN_OR_RETURN(session_, admission.handlers->OpenSession([this] { Advance(); }, now));
    return absl::OkStatus();
  }

  // Under the lock. Those of the session, also after its reign has ended; it must be there.
  Handlers& HandlersOf(Reigns& reigns) {
    Handlers* const handlers = reigns.Find(reign_);
    MP_CHECK(handlers != nullptr, "a session outlives its reign", reign_.value);
    return *handlers;
  }

  // Under the lock.
  void Take(Handlers& handlers, absl::Time now) {
    const bool was_registered = !session_->name().empty();
    const uint64_t quarantined = session_->records_quarantined();
    handlers.OnNodeMessage(*session_, incoming_, now);
    if (!was_registered && !session_->name().empty()) {
      handlers_.Post([this, name = session_->name(), node = session_->node()] {
        service_.LogRegistered(name, node, peer_);
      });
    }
    if (session_->records_quarantined() != quarantined) {
      handlers_.Post(
          [this, name = session_->name(), count = session_->records_quarantined() - quarantined] {
            service_.LogQuarantined(name, count);
          });
    }
  }

  // The next step of the stream's writing side, if one is due. Under the lock, any thread.
  void Advance() {
    if (session_ == nullptr || is_finishing_ || is_cutting_) return;
    if (is_writing_) {
      if (session_->is_cut_off()) CutOff();
      return;
    }
    std::optional<v1::MasterMessage> message = session_->TakeMessage();
    if (message.has_value()) {
      outgoing_ = *std::move(message);
      is_writing_ = true;
      handlers_.Post([this] { stream_.Write(outgoing_, WriteTag()); });
      return;
    }
    if (!session_->is_finished()) return;
    is_finishing_ = true;
    handlers_.Post([this, name = session_->name(), status = session_->end_status()] {
      service_.LogEnded(name, peer_, status);
      End(status);
    });
  }

  // The node takes nothing: the write under way ends only with the stream.
  void CutOff() {
    if (was_cut_) return;
    was_cut_ = is_cutting_ = true;
    handlers_.Post([this] {
      context().TryCancel();
      handlers_.Run([this](Reigns&, absl::Time) {
        is_cutting_ = false;
        Advance();
      });
    });
  }

  // What a node is told that this master cannot have a session with, in so many words, too.
  void Refuse(const absl::Status& status) {
    RecordEnd(status);
    StatusToProto(status, outgoing_.mutable_refused()->mutable_status());
    stream_.WriteAndFinish(outgoing_, grpc::WriteOptions(), ToGrpc(status), FinishTag());
  }

  void End(const absl::Status& status) {
    RecordEnd(status);
    stream_.Finish(ToGrpc(status), FinishTag());  // the last use of *this
  }

  void RecordEnd(const absl::Status& status) {
    if (ReasonOf(status) == ErrorReason::kNotLeader) handlers_.CountRefusal();
    service_.RecordEnd(status, started_at_);
  }

  SessionService& service_;
  SharedHandlers& handlers_;
  grpc::ServerAsyncReaderWriter<v1::MasterMessage, v1::NodeMessage> stream_{&context()};
  std::string peer_;
  absl::Time started_at_;
  v1::NodeMessage incoming_;    // the read's
  v1::MasterMessage outgoing_;  // the write's

  // Under the lock.
  Reign reign_;
  std::unique_ptr<NodeSession> session_;
  bool is_writing_ = false;
  bool is_cutting_ = false;  // TryCancel is under way
  bool was_cut_ = false;
  bool is_finishing_ = false;
};

}  // namespace

SessionService::SessionService(SharedHandlers& handlers, const Clock& clock,
                               metrics::Registry& registry, const Logger& logger)
    : handlers_(handlers),
      clock_(clock),
      metrics_(registry, "Session"),
      logger_(logger),
      limiter_(clock, absl::Seconds(1), /*burst=*/100) {}

void SessionService::Serve(CallQueues::Queue& queue) {
  queue.Accept(
      [&](grpc::ServerCompletionQueue& accepting) { new SessionCall(*this, queue, accepting); });
}

void SessionService::LogRegistered(absl::string_view name, NodeId node, absl::string_view peer) {
  if (const auto held_back = limiter_.Admit()) {
    logger_.Info(
        "node registered",
        {{"node", name}, {"node_id", node.value}, {"peer", peer}, {"held_back", *held_back}});
  }
}

void SessionService::LogQuarantined(absl::string_view name, uint64_t records) {
  if (const auto held_back = limiter_.Admit()) {
    logger_.Warn("node reported records that cannot be true; they were left out",
                 {{"node", name}, {"records", records}, {"held_back", *held_back}});
  }
}

void SessionService::LogEnded(absl::string_view name, absl::string_view peer,
                              const absl::Status& status) {
  if (const auto held_back = limiter_.Admit()) {
    logger_.Info(
        "node session ended",
        {{"node", name}, {"peer", peer}, {"reason", Describe(status)}, {"held_back", *held_back}});
  }
}

void SessionService::RecordEnd(const absl::Status& status, absl::Time started_at) {
  metrics_.Record(static_cast<int>(status.code()), clock_.Now() - started_at);
}

}  // namespace moonpool::master
