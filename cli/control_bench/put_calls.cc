#include "cli/control_bench/put_calls.h"

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/random.h"
#include "common/rpc/grpc/status_convert.h"
#include "common/rpc/status_proto.h"
#include "common/status_macros.h"

namespace moonpool::cli {
namespace {

constexpr uint64_t kObjectBytes = 64;
constexpr std::chrono::seconds kTimeout{10};

void SetDeadline(grpc::ClientContext& context) {
  context.set_deadline(std::chrono::system_clock::now() + kTimeout);
}

std::string KeyOf(const std::string& prefix, uint64_t number) {
  return absl::StrCat(prefix, number);
}

}  // namespace

PutCalls::PutCalls(const std::string& master, const v1::RequestHeader& header, std::string prefix,
                   size_t keys_per_call)
    : PutCalls(OwnChannel(master), header, std::move(prefix), keys_per_call) {}

PutCalls::PutCalls(const std::shared_ptr<grpc::Channel>& channel, const v1::RequestHeader& header,
                   std::string prefix, size_t keys_per_call)
    : stub_(channel),
      places_(channel),
      prefix_(std::move(prefix)),
      keys_per_call_(keys_per_call),
      first_request_id_(EntropySeed()) {
  *start_.mutable_header() = header;
  *commit_.mutable_header() = header;
  for (size_t i = 0; i < keys_per_call; ++i) start_.add_puts()->set_size_bytes(kObjectBytes);
}

absl::Status PutCalls::Call() {
  RETURN_IF_ERROR(Start());
  return Commit();
}

absl::StatusOr<PutCalls::Sent> PutCalls::CallAndTell() {
  SetStart();
  grpc::ClientContext context;
  SetDeadline(context);
  v1::StartPutsResponse granted;
  RETURN_IF_ERROR(FromGrpc(stub_.StartPuts(&context, start_, &granted)));
  Sent sent = {.start_request = start_.SerializeAsString(),
               .start_response = granted.SerializeAsString()};
  ASSIGN_OR_RETURN(granted_,
                   AnswerOf<StartPutsAnswer>(absl::StatusOr<v1::StartPutsResponse>(granted)));
  SetCommit();
  grpc::ClientContext second_context;
  SetDeadline(second_context);
  v1::CommitPutsResponse committed;
  RETURN_IF_ERROR(FromGrpc(stub_.CommitPuts(&second_context, commit_, &committed)));
  for (const v1::Status& result : committed.results()) RETURN_IF_ERROR(StatusFromProto(result));
  sent.commit_request = commit_.SerializeAsString();
  sent.commit_response = committed.SerializeAsString();
  return sent;
}

void PutCalls::SetStart() {
  start_.set_request_id(first_request_id_ + calls_);
  for (size_t i = 0; i < keys_per_call_; ++i) {
    start_.mutable_puts(static_cast<int>(i))->set_key(KeyOf(prefix_, calls_ * keys_per_call_ + i));
  }
  ++calls_;
}

absl::Status PutCalls::Start() {
  SetStart();
  grpc::ClientContext context;
  SetDeadline(context);
  granted_ = StartPutsAnswer();
  const auto call = places_.AsyncStartPuts(&context, start_, queue_.queue());
  RETURN_IF_ERROR(queue_.Await(*call, &granted_));
  for (const StartPutsAnswer::Result& result : granted_.results) RETURN_IF_ERROR(result.status);
  return absl::OkStatus();
}

void PutCalls::SetCommit() {
  commit_.clear_puts();
  for (const StartPutsAnswer::Result& result : granted_.results) {
    v1::CommitPut& put = *commit_.add_puts();
    put.set_generation(result.grant.generation.value);
    put.set_handle(result.grant.handle);
  }
}

absl::Status PutCalls::Commit() {
  SetCommit();
  grpc::ClientContext context;
  SetDeadline(context);
  CommitPutsAnswer committed;
  const auto call = places_.AsyncCommitPuts(&context, commit_, queue_.queue());
  RETURN_IF_ERROR(queue_.Await(*call, &committed));
  for (const absl::Status& result : committed.results) RETURN_IF_ERROR(result);
  return absl::OkStatus();
}

std::vector<std::string> PutCalls::TakeKeys() {
  std::vector<std::string> keys;
  for (uint64_t i = taken_calls_ * keys_per_call_; i < calls_ * keys_per_call_; ++i) {
    keys.push_back(KeyOf(prefix_, i));
  }
  taken_calls_ = calls_;
  return keys;
}

}  // namespace moonpool::cli
