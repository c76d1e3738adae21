// Linked into tests that run real gRPC. Debian's gRPC and what it uses are compiled without
// ThreadSanitizer, which sees what they allocate, free and copy but not how their threads hand
// things over. Only their own doing is left out: `race_top` looks at the innermost frame alone,
// so races in our code stay visible on gRPC's threads, too.

extern "C" const char* __tsan_default_suppressions();

extern "C" const char* __tsan_default_suppressions() {
  return
      // malloc, free, memcpy, send, ... called from inside these libraries.
      "called_from_lib:libgrpc.so\n"
      "called_from_lib:libgrpc++.so\n"
      "called_from_lib:libgpr.so\n"
      "called_from_lib:libupb.so\n"
      "called_from_lib:libabsl_cord.so\n"
      "called_from_lib:libabsl_cord_internal.so\n"
      "called_from_lib:libabsl_graphcycles_internal.so\n"
      "called_from_lib:libabsl_status.so\n"
      "called_from_lib:libabsl_strings.so\n"
      "called_from_lib:libabsl_time.so\n"
      "called_from_lib:libabsl_time_zone.so\n"
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
      // gRPC joins its threads in ways that are not seen.
      "thread:grpc_core::Thread\n";
}
