// The threads that calls and streams are served on. Each waits on a completion queue of its own, so
// that a call costs one wake-up: what has arrived is handled, and answered, where it is read.
// (gRPC's callback API hands a call over to another thread, and its end to a third.)
#pragma once

#include <grpcpp/completion_queue.h>
#include <grpcpp/server_builder.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/synchronization/mutex.h"

namespace moonpool::master {

// What a call waits for: its address is the tag of the operation.
class CallStep {
 public:
  virtual void Happen(bool is_ok) = 0;

 protected:
  ~CallStep() = default;
};

class CallQueues {
 public:
  class Queue {
   public:
    explicit Queue(std::unique_ptr<grpc::ServerCompletionQueue> queue) : queue_(std::move(queue)) {}

    // Runs `accept`, which asks gRPC for another call; not once the queue is being closed.
    void Accept(absl::FunctionRef<void(grpc::ServerCompletionQueue&)> accept);
    // Around the life of each call that has arrived: the queue is not closed before their end, so
    // that whoever ends a call may tell the queue.
    void CallBegins();
    void CallEnded();

   private:
    friend class CallQueues;
    void Run();
    void Close();
    bool has_no_calls() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return calls_ == 0; }

    const std::unique_ptr<grpc::ServerCompletionQueue> queue_;
    absl::Mutex mutex_;
    bool is_closing_ ABSL_GUARDED_BY(mutex_) = false;
    int64_t calls_ ABSL_GUARDED_BY(mutex_) = 0;
    std::thread thread_;
  };

  // Before the server is built.
  CallQueues(grpc::ServerBuilder& builder, size_t threads);
  ~CallQueues() { Stop(); }

  // Once it is. `serve` accepts the first calls of each queue; its thread is named calls-<n>.
  void Start(absl::FunctionRef<void(Queue&)> serve);
  // After the server's Shutdown: waits for the calls that there are, and joins. Idempotent.
  void Stop();

 private:
  std::vector<std::unique_ptr<Queue>> queues_;
};

}  // namespace moonpool::master
