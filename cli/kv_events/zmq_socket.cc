#include "cli/kv_events/zmq_socket.h"

#include <zmq.h>

#include <algorithm>
#include <cerrno>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/error.h"

namespace moonpool::cli {
namespace {

int NativeType(ZmqSocket::Type type) {
  switch (type) {
    case ZmqSocket::Type::kPub: return ZMQ_PUB;
    case ZmqSocket::Type::kRouter: return ZMQ_ROUTER;
    case ZmqSocket::Type::kSub: return ZMQ_SUB;
    case ZmqSocket::Type::kDealer: return ZMQ_DEALER;
  }
  return ZMQ_PUB;
}

void Set(void* socket, int option, int value) {
  MP_CHECK(zmq_setsockopt(socket, option, &value, sizeof(value)) == 0, "zmq option", option);
}

// A message with the life of this object.
class Frame {
 public:
  Frame() { zmq_msg_init(&message_); }
  ~Frame() { zmq_msg_close(&message_); }
  Frame(const Frame&) = delete;
  Frame& operator=(const Frame&) = delete;

  zmq_msg_t* get() { return &message_; }
  std::string Text() {
    return std::string(static_cast<const char*>(zmq_msg_data(&message_)), zmq_msg_size(&message_));
  }
  bool has_more() { return zmq_msg_more(&message_) != 0; }

 private:
  zmq_msg_t message_;
};

}  // namespace

ZmqContext::ZmqContext() : context_(zmq_ctx_new()) {
  MP_CHECK(context_ != nullptr, "no ZeroMQ context");
}

ZmqContext::~ZmqContext() { zmq_ctx_term(context_); }

void ZmqSocket::Closer::operator()(void* socket) const { zmq_close(socket); }

absl::StatusOr<ZmqSocket> ZmqSocket::Bind(const ZmqContext& context, Type type,
                                          const std::string& endpoint, const ZmqLimits& limits) {
  ZmqSocket made(zmq_socket(context.get(), NativeType(type)));
  void* const socket = made.socket_.get();
  MP_CHECK(socket != nullptr, "no ZeroMQ socket");
  Set(socket, ZMQ_LINGER, 0);
  Set(socket, ZMQ_SNDHWM, limits.sent);
  Set(socket, ZMQ_RCVHWM, limits.received);
  const int64_t frame_bytes = limits.frame_bytes;
  MP_CHECK(zmq_setsockopt(socket, ZMQ_MAXMSGSIZE, &frame_bytes, sizeof(frame_bytes)) == 0,
           "zmq option", ZMQ_MAXMSGSIZE);
  if (type == Type::kRouter) Set(socket, ZMQ_ROUTER_MANDATORY, 1);  // it says who has gone
  if (zmq_bind(socket, endpoint.c_str()) != 0) {
    return MakeError(absl::StatusCode::kUnavailable, ErrorReason::kUnspecified,
                     absl::StrCat("cannot bind ", endpoint, ": ", zmq_strerror(zmq_errno())),
                     {.hint = "an endpoint is tcp://HOST:PORT or ipc://PATH; another process may "
                              "have it"});
  }
  char bound[1024] = {};
  size_t size = sizeof(bound);
  if (zmq_getsockopt(socket, ZMQ_LAST_ENDPOINT, bound, &size) == 0) made.endpoint_ = bound;
  return made;
}

absl::StatusOr<ZmqSocket> ZmqSocket::Connect(const ZmqContext& context, Type type,
                                             const std::string& endpoint) {
  ZmqSocket made(zmq_socket(context.get(), NativeType(type)));
  void* const socket = made.socket_.get();
  MP_CHECK(socket != nullptr, "no ZeroMQ socket");
  Set(socket, ZMQ_LINGER, 0);
  if (zmq_connect(socket, endpoint.c_str()) != 0) {
    return absl::UnavailableError(absl::StrCat(endpoint, ": ", zmq_strerror(zmq_errno())));
  }
  return made;
}

void ZmqSocket::Subscribe(absl::string_view topic) {
  MP_CHECK(zmq_setsockopt(socket_.get(), ZMQ_SUBSCRIBE, topic.data(), topic.size()) == 0,
           "subscribe");
}

ZmqSocket::Sent ZmqSocket::Send(absl::Span<const absl::string_view> frames) {
  for (size_t i = 0; i < frames.size(); ++i) {
    const int flags = ZMQ_DONTWAIT | (i + 1 < frames.size() ? ZMQ_SNDMORE : 0);
    // Only the first frame of a message can be refused.
    if (zmq_send(socket_.get(), frames[i].data(), frames[i].size(), flags) < 0) {
      return zmq_errno() == EAGAIN ? Sent::kNoRoom : Sent::kGone;
    }
  }
  return Sent::kSent;
}

std::optional<std::vector<std::string>> ZmqSocket::Receive(absl::Duration within,
                                                           size_t frames_max) {
  zmq_pollitem_t item = {.socket = socket_.get(), .fd = 0, .events = ZMQ_POLLIN, .revents = 0};
  const int64_t ms = std::clamp<int64_t>(absl::ToInt64Milliseconds(within), 0, 1 << 30);
  if (zmq_poll(&item, 1, static_cast<long>(ms)) <= 0) return std::nullopt;
  std::vector<std::string> frames;
  while (true) {
    Frame frame;
    if (zmq_msg_recv(frame.get(), socket_.get(), ZMQ_DONTWAIT) < 0) return std::nullopt;
    if (frames.size() < frames_max) {
      frames.push_back(frame.Text());
    } else if (frames.size() == frames_max) {
      frames.emplace_back();
    }
    if (!frame.has_more()) return frames;
  }
}

}  // namespace moonpool::cli
