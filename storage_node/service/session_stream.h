// One stream to a master (MembershipService.Session), with its own connection.
//
//   SessionStream* stream = SessionStream::Start(id, "10.0.0.1:7400", events);
//   stream->Write(message);      // one kWritten each
//   stream->ReadNext();          // one kMessage, or kBroken
//   stream->Release(...);        // after kBroken, or to give up; then kEnded comes
#pragma once

#include <grpcpp/grpcpp.h>

#include <deque>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "moonpool/v1/membership.grpc.pb.h"
#include "storage_node/service/stream_events.h"

namespace moonpool::storage_node {

// Owns itself: deleted when gRPC is done with it, after Release. Write, ReadNext and Release
// belong to one thread (`link`); what gRPC calls runs on its threads and only posts events.
class SessionStream final : public grpc::ClientBidiReactor<v1::NodeMessage, v1::MasterMessage> {
 public:
  // Returns at once; a connection that cannot be made is a stream that breaks.
  static SessionStream* Start(uint64_t id, const std::string& address,
                              std::shared_ptr<StreamEvents> events);

  void Write(v1::NodeMessage message);
  // One at a time.
  void ReadNext() { StartRead(&incoming_); }
  // The pointer is void afterwards. A stream that is not broken is cancelled.
  void Release(bool is_broken);

 private:
  SessionStream(uint64_t id, const std::string& address, std::shared_ptr<StreamEvents> events);

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnDone(const grpc::Status& status) override;

  const uint64_t id_;
  const std::shared_ptr<StreamEvents> events_;  // shared: gRPC ends a stream when it likes
  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<v1::MembershipService::Stub> stub_;
  grpc::ClientContext context_;
  v1::MasterMessage incoming_;

  absl::Mutex mutex_;
  std::deque<v1::NodeMessage> unwritten_ ABSL_GUARDED_BY(mutex_);  // the first is being written
  bool is_broken_ ABSL_GUARDED_BY(mutex_) = false;                 // nothing more is written
};

}  // namespace moonpool::storage_node
