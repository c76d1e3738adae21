#include "master/service/call_queues.h"

#include <pthread.h>

#include "absl/strings/str_cat.h"

namespace moonpool::master {

void CallQueues::Queue::Accept(absl::FunctionRef<void(grpc::ServerCompletionQueue&)> accept) {
  absl::MutexLock lock(&mutex_);
  if (!is_closing_) accept(*queue_);
}

void CallQueues::Queue::CallBegins() {
  absl::MutexLock lock(&mutex_);
  ++calls_;
}

void CallQueues::Queue::CallEnded() {
  absl::MutexLock lock(&mutex_);
  --calls_;
}

void CallQueues::Queue::Run() {
  void* tag = nullptr;
  bool is_ok = false;
  while (queue_->Next(&tag, &is_ok)) static_cast<CallStep*>(tag)->Happen(is_ok);
}

void CallQueues::Queue::Close() {
  {
    absl::MutexLock lock(&mutex_);
    is_closing_ = true;
    mutex_.Await(absl::Condition(this, &Queue::has_no_calls));
  }
  queue_->Shutdown();
}

CallQueues::CallQueues(grpc::ServerBuilder& builder, size_t threads) {
  for (size_t i = 0; i < threads; ++i) {
    queues_.push_back(std::make_unique<Queue>(builder.AddCompletionQueue()));
  }
}

void CallQueues::Start(absl::FunctionRef<void(Queue&)> serve) {
  for (size_t i = 0; i < queues_.size(); ++i) {
    Queue& queue = *queues_[i];
    serve(queue);
    queue.thread_ = std::thread([&queue, i] {
      pthread_setname_np(pthread_self(), absl::StrCat("calls-", i).c_str());
      queue.Run();
    });
  }
}

// A queue without a thread, of a server that did not start, is emptied here.
void CallQueues::Stop() {
  for (auto& queue : queues_) queue->Close();
  for (auto& queue : queues_) {
    if (queue->thread_.joinable()) {
      queue->thread_.join();
    } else {
      queue->Run();
    }
  }
  queues_.clear();
}

}  // namespace moonpool::master
