#include "master/service/session_service.h"

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "common/check.h"
#include "common/error.h"
#include "common/rpc/grpc/status_convert.h"
#include "common/rpc/status_proto.h"
#include "common/status_macros.h"

namespace moonpool::master {
namespace {

// One stream. On gRPC's threads and, when others have messages for its node, on theirs; the lock
// of the handlers serialises all. Owns itself. At most one read, one write and one Finish are under
// way; Finish is never decided while a write is, so nothing that was posted outlives the reactor.
class SessionReactor final : public grpc::ServerBidiReactor<v1::NodeMessage, v1::MasterMessage> {
 public:
  SessionReactor(SessionService& service, grpc::CallbackServerContext& context)
      : service_(service),
        handlers_(service.handlers()),
        context_(context),
        peer_(context.peer()),
        started_at_(service.clock().Now()) {
    handlers_.CallBegins();
  }

  void Start() {
    absl::Status status;
    handlers_.Run([&](Reigns& reigns, absl::Time now) {
      status = Open(reigns, now);
      is_finishing_ = !status.ok();
    });
    if (status.ok()) {
      StartRead(&incoming_);
    } else if (ReasonOf(status) == ErrorReason::kNotLeader) {
      Refuse(status);
    } else {
      End(status);
    }
  }

 private:
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
    // gRPC keeps the reactor until this reaction has returned, so another thread's Finish in
    // between only makes the read fail.
    if (reads_on) StartRead(&incoming_);
    steps_.fetch_add(1, std::memory_order_release);
  }

  void OnWriteDone(bool ok) override {
    handlers_.Run([&](Reigns& reigns, absl::Time now) {
      is_writing_ = false;
      if (!ok) HandlersOf(reigns).CloseSession(*session_, now);
      Advance();
    });
    steps_.fetch_add(1, std::memory_order_release);
  }

  void OnCancel() override {
    handlers_.Run([&](Reigns& reigns, absl::Time now) {
      if (session_ == nullptr) return;
      HandlersOf(reigns).CloseSession(*session_, now);
      Advance();
    });
    steps_.fetch_add(1, std::memory_order_release);
  }

  void OnDone() override {
    MP_CHECK(steps_.load(std::memory_order_acquire) > 0, "a stream ended without a status");
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
      handlers_.Post([this] { StartWrite(&outgoing_); });
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
      context_.TryCancel();
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
    grpc::Status end = ToGrpc(status);
    steps_.fetch_add(1, std::memory_order_release);
    StartWriteAndFinish(&outgoing_, grpc::WriteOptions(), std::move(end));  // as in End
  }

  void End(const absl::Status& status) {
    RecordEnd(status);
    grpc::Status end = ToGrpc(status);
    steps_.fetch_add(1, std::memory_order_release);
    Finish(std::move(end));  // the last use of *this
  }

  void RecordEnd(const absl::Status& status) {
    if (ReasonOf(status) == ErrorReason::kNotLeader) handlers_.CountRefusal();
    service_.RecordEnd(status, started_at_);
  }

  SessionService& service_;
  SharedHandlers& handlers_;
  grpc::CallbackServerContext& context_;
  const std::string peer_;
  const absl::Time started_at_;
  v1::NodeMessage incoming_;    // the read's
  v1::MasterMessage outgoing_;  // the write's

  // Under the lock.
  Reign reign_;
  std::unique_ptr<NodeSession> session_;
  bool is_writing_ = false;
  bool is_cutting_ = false;  // TryCancel is under way
  bool was_cut_ = false;
  bool is_finishing_ = false;

  // gRPC calls OnDone after the other reactions and Finish; this says it once more for those who
  // cannot see how (ThreadSanitizer).
  std::atomic<int> steps_ = 0;
};

}  // namespace

SessionService::SessionService(SharedHandlers& handlers, const Clock& clock,
                               metrics::Registry& registry, const Logger& logger)
    : handlers_(handlers),
      clock_(clock),
      metrics_(registry, "Session"),
      logger_(logger),
      limiter_(clock, absl::Seconds(1), /*burst=*/100) {}

grpc::ServerBidiReactor<v1::NodeMessage, v1::MasterMessage>* SessionService::Session(
    grpc::CallbackServerContext* context) {
  auto* reactor = new SessionReactor(*this, *context);
  reactor->Start();
  return reactor;
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
