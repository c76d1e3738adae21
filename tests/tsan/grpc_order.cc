// Linked into every program under ThreadSanitizer. gRPC promises that what a thread did before it
// started a batch of operations happened before the batch's completion is seen; Debian's gRPC is
// compiled without ThreadSanitizer, which therefore sees nothing of that and calls the objects a
// call carries from one thread to the next a race. The two functions through which everything
// passes, callbacks too (libgrpc++ runs them on threads that wait for completions), take the place
// of the library's and say it.

#include <dlfcn.h>
#include <grpc/grpc.h>
#include <sanitizer/tsan_interface.h>

namespace {

template <typename Function>
Function* Next(const char* symbol) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, symbol));
}

grpc_event Seen(grpc_event event) {
  if (event.type == GRPC_OP_COMPLETE) __tsan_acquire(event.tag);
  return event;
}

}  // namespace

extern "C" {

grpc_call_error grpc_call_start_batch(grpc_call* call, const grpc_op* ops, size_t nops, void* tag,
                                      void* reserved) {
  static auto* const real = Next<decltype(grpc_call_start_batch)>("grpc_call_start_batch");
  __tsan_release(tag);
  return real(call, ops, nops, tag, reserved);
}

grpc_event grpc_completion_queue_next(grpc_completion_queue* queue, gpr_timespec deadline,
                                      void* reserved) {
  static auto* const real =
      Next<decltype(grpc_completion_queue_next)>("grpc_completion_queue_next");
  return Seen(real(queue, deadline, reserved));
}

grpc_event grpc_completion_queue_pluck(grpc_completion_queue* queue, void* tag,
                                       gpr_timespec deadline, void* reserved) {
  static auto* const real =
      Next<decltype(grpc_completion_queue_pluck)>("grpc_completion_queue_pluck");
  return Seen(real(queue, tag, deadline, reserved));
}

}  // extern "C"
