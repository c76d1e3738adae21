// One stream to a master (MembershipService.Session), with its own connection.
//
//   SessionStream stream(id, "10.0.0.1:7400", events);
//   stream.Start();
//   stream.Write(message);      // one kWritten each
//   stream.ReadNext();          // one kMessage, or kBroken
//   stream.Release(...);        // after kBroken, or to give up; then kEnded comes
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

// All public methods belong to one thread (`link`); what gRPC calls runs on its threads and only
// posts events. Destroyed on the link thread, too, and only after its kEnded: gRPC's threads cannot
// take down the connection they run for.
class SessionStream final : public grpc::ClientBidiReactor<v1::NodeMessage, v1::MasterMessage> {
 public:
  SessionStream(uint64_t id, const std::string& address, std::shared_ptr<StreamEvents> events);

  // Returns at once and reads; a connection that cannot be made is a stream that breaks.
  void Start();
  void Write(v1::NodeMessage message);
  // One at a time.
  void ReadNext() { StartRead(&incoming_); }
  // Once, and nothing else afterwards. A stream that is not broken is cancelled.
  void Release(bool is_broken);

 private:
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
