// Where one thread waits for the end of its calls, one at a time.
#pragma once

#include <grpcpp/completion_queue.h>
#include <grpcpp/support/async_unary_call.h>

#include "absl/status/status.h"
#include "common/rpc/grpc/status_convert.h"

namespace moonpool::cli {

class CallQueue {
 public:
  CallQueue() = default;
  ~CallQueue() {
    queue_.Shutdown();
    Next();
  }

  grpc::CompletionQueue* queue() { return &queue_; }

  // Of a call that was started on queue().
  template <typename Reader, typename Answer>
  absl::Status Await(Reader& call, Answer* answer) {
    grpc::Status status;
    call.Finish(answer, &status, this);
    const bool is_readable = Next();
    if (status.ok() && !is_readable) return absl::InternalError("the answer cannot be read");
    return FromGrpc(status);
  }

 private:
  bool Next() {
    void* tag = nullptr;
    bool is_ok = false;
    queue_.Next(&tag, &is_ok);
    return is_ok;
  }

  grpc::CompletionQueue queue_;
};

}  // namespace moonpool::cli
