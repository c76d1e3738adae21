#include "storage_node/service/session_stream.h"

#include <utility>

#include "common/rpc/grpc/status_convert.h"

namespace moonpool::storage_node {
namespace {

// Commands are small; a free of a million generations still fits.
constexpr int kMessageBytesMax = 16 << 20;

std::shared_ptr<grpc::Channel> Connect(const std::string& address) {
  grpc::ChannelArguments arguments;
  // Each attempt is a new connection: no back-off of gRPC's own in the way of ours.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetMaxReceiveMessageSize(kMessageBytesMax);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

}  // namespace

SessionStream::SessionStream(uint64_t id, const std::string& address,
                             std::shared_ptr<StreamEvents> events)
    : id_(id),
      events_(std::move(events)),
      channel_(Connect(address)),
      stub_(v1::MembershipService::NewStub(channel_)) {}

void SessionStream::Start() {
  stub_->async()->Session(&context_, this);
  AddHold();  // until Release
  ReadNext();
  StartCall();
}

// gRPC may call back from within StartWrite, so never under the lock.
void SessionStream::Write(v1::NodeMessage message) {
  const v1::NodeMessage* first = nullptr;
  {
    absl::MutexLock lock(&mutex_);
    if (is_broken_) return;
    unwritten_.push_back(std::move(message));
    if (unwritten_.size() == 1) first = &unwritten_.front();
  }
  if (first != nullptr) StartWrite(first);
}

void SessionStream::OnWriteDone(bool ok) {
  const v1::NodeMessage* next = nullptr;
  {
    absl::MutexLock lock(&mutex_);
    if (ok) {
      unwritten_.pop_front();
      if (!unwritten_.empty()) next = &unwritten_.front();
    } else {
      is_broken_ = true;  // the read that is under way will say so
    }
  }
  events_->Post({.kind = StreamEvent::Kind::kWritten, .stream = id_});
  if (next != nullptr) StartWrite(next);
}

void SessionStream::OnReadDone(bool ok) {
  if (ok) {
    events_->Post(
        {.kind = StreamEvent::Kind::kMessage, .stream = id_, .message = std::move(incoming_)});
  } else {
    events_->Post({.kind = StreamEvent::Kind::kBroken, .stream = id_});
  }
}

void SessionStream::Release(bool is_broken) {
  // A cancel could take the place of the reason why it broke.
  if (!is_broken) context_.TryCancel();
  RemoveHold();
}

void SessionStream::OnDone(const grpc::Status& status) {
  // Whoever takes this event destroys the stream, perhaps before Post has returned.
  const std::shared_ptr<StreamEvents> events = events_;
  events->Post({.kind = StreamEvent::Kind::kEnded, .stream = id_, .status = FromGrpc(status)});
}

}  // namespace moonpool::storage_node
