// One streaming call on the thread of a queue. It has gRPC's object for its stream and starts
// reads, writes and the end of it with the tags that it gets here:
//
//   stream_.Read(&incoming_, ReadTag());         ... OnReadDone(is_ok)
//   stream_.Write(outgoing_, WriteTag());        ... OnWriteDone(is_ok)
//   stream_.Finish(status, FinishTag());         once
//
// At most one of each is under way. OnDone comes last, when all that was started has ended and so
// has the call.
#pragma once

#include <grpcpp/server_context.h>

#include <atomic>

#include "master/service/call_queues.h"

namespace moonpool::master {

class StreamCall {
 public:
  explicit StreamCall(CallQueues::Queue& queue) : queue_(queue) {
    context_.AsyncNotifyWhenDone(&ended_);
  }
  StreamCall(const StreamCall&) = delete;
  StreamCall& operator=(const StreamCall&) = delete;

 protected:
  virtual ~StreamCall() = default;

  // With this tag it is accepted. The server may stop instead: then nothing happens any more.
  void* ArrivalTag() { return &arrived_; }
  void* ReadTag() { return Started(&read_); }
  void* WriteTag() { return Started(&written_); }
  void* FinishTag() { return &finished_; }
  grpc::ServerContext& context() { return context_; }
  CallQueues::Queue& queue() { return queue_; }

  virtual void OnArrived() = 0;
  virtual void OnReadDone(bool /*is_ok*/) {}
  virtual void OnWriteDone(bool is_ok) = 0;
  virtual void OnCancel() = 0;
  virtual void OnDone() = 0;  // deletes this

 private:
  template <void (StreamCall::*kReaction)(bool)>
  class Step final : public CallStep {
   public:
    explicit Step(StreamCall* call) : call_(call) {}
    void Happen(bool is_ok) override { (call_->*kReaction)(is_ok); }

   private:
    StreamCall* const call_;
  };

  void* Started(CallStep* step) {
    to_come_.fetch_add(1, std::memory_order_relaxed);
    return step;
  }
  void Arrived(bool is_ok) {
    if (!is_ok) {
      delete this;
      return;
    }
    queue_.CallBegins();
    OnArrived();
  }
  void Read(bool is_ok) {
    OnReadDone(is_ok);
    Leave();
  }
  void Written(bool is_ok) {
    OnWriteDone(is_ok);
    Leave();
  }
  void Finished(bool) { Leave(); }
  void Ended(bool) {
    if (context_.IsCancelled()) OnCancel();
    Leave();
  }
  void Leave() {
    if (to_come_.fetch_sub(1, std::memory_order_acq_rel) > 1) return;
    CallQueues::Queue& queue = queue_;
    OnDone();
    queue.CallEnded();
  }

  CallQueues::Queue& queue_;
  grpc::ServerContext context_;
  Step<&StreamCall::Arrived> arrived_{this};
  Step<&StreamCall::Read> read_{this};
  Step<&StreamCall::Written> written_{this};
  Step<&StreamCall::Finished> finished_{this};
  Step<&StreamCall::Ended> ended_{this};
  std::atomic<int> to_come_ = 2;  // the finish and the end, and what was started
};

}  // namespace moonpool::master
