// Linked into every program under ThreadSanitizer. All but one is about libraries. Debian's gRPC
// and what it uses are compiled without it, which sees what they allocate, free and send but not
// how their threads hand things over (what grpc_order.cc does not know of: a server's reactor ends
// on a thread of gRPC's executor). Only their own doing is left out: `race_top` looks at the
// innermost frame alone, so races in our code stay visible on gRPC's threads, too.

extern "C" const char* __tsan_default_options();
extern "C" const char* __tsan_default_suppressions();

// malloc, free, memcpy, send, ... when a library that is not instrumented calls them.
extern "C" const char* __tsan_default_options() { return "ignore_noninstrumented_modules=1"; }

extern "C" const char* __tsan_default_suppressions() {
  return
      // Their code in headers, compiled into ours.
      "race_top:grpc::*\n"
      "race_top:std::function<void (bool)>\n"
      "race_top:std::_Function_base\n"
      // The first look at an object that gRPC has carried to another thread.
      "race_top:operator new\n"
      // Messages and statuses on their way into and out of a call.
      "race:grpc::internal::CallOp\n"
      // The last step of a client's stream, taken on whichever thread is last.
      "race:grpc::internal::ClientCallbackReaderWriterImpl*MaybeFinish\n"
      // gRPC's own part of a reactor of ours: its lock, and what waits until the call is bound. It
      // is made, used and ended on different threads.
      "race:grpc::ServerBidiReactor\n"
      // Ours, and meant: it reads bytes that may get another owner, and then forgets what it read.
      "race:moonpool::storage_node::Scrubber::HashSome\n"
      // gRPC joins its threads in ways that are not seen.
      "thread:grpc_core::Thread\n";
}
