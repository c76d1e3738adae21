// The two calls of a batch of puts, without the bytes in between.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/control_bench/call_queue.h"
#include "cli/control_bench/grpc_echo.h"
#include "common/rpc/grpc/place_calls.h"
#include "common/rpc/place_answers.h"
#include "moonpool/v1/master.grpc.pb.h"

namespace moonpool::cli {

// Used by one thread.
class PutCalls {
 public:
  // What went over the wire.
  struct Sent {
    std::string start_request = {};
    std::string start_response = {};
    std::string commit_request = {};
    std::string commit_response = {};
  };

  // Keys are `prefix` and a number. `header` is that of every request.
  PutCalls(const std::string& master, const v1::RequestHeader& header, std::string prefix,
           size_t keys_per_call);

  // StartPuts of fresh keys, then CommitPuts of them all.
  absl::Status Call();
  // The same, and what was said.
  absl::StatusOr<Sent> CallAndTell();

  // Committed since it was made, or since they were taken last.
  std::vector<std::string> TakeKeys();

 private:
  PutCalls(const std::shared_ptr<grpc::Channel>& channel, const v1::RequestHeader& header,
           std::string prefix, size_t keys_per_call);
  // Names the keys of the next call.
  void SetStart();
  absl::Status Start();
  void SetCommit();
  absl::Status Commit();

  v1::MasterService::Stub stub_;
  PlaceCalls places_;
  CallQueue queue_;
  const std::string prefix_;
  const size_t keys_per_call_;
  const uint64_t first_request_id_;
  uint64_t calls_ = 0;
  uint64_t taken_calls_ = 0;
  // Of the call that runs; the same ones again, as the client has them.
  v1::StartPutsRequest start_;
  StartPutsAnswer granted_;
  v1::CommitPutsRequest commit_;
};

}  // namespace moonpool::cli
