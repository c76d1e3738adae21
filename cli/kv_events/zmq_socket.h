// ZeroMQ sockets, through its C interface: errors are values, as everywhere here.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

namespace moonpool::cli {

// Thread-safe. Its sockets end before it.
class ZmqContext {
 public:
  ZmqContext();
  ~ZmqContext();
  ZmqContext(const ZmqContext&) = delete;
  ZmqContext& operator=(const ZmqContext&) = delete;

  void* get() const { return context_; }

 private:
  void* const context_;
};

// Bounds of a socket that anybody may connect to. Each is per peer; ZeroMQ counts messages, so what
// they come to in bytes is up to who sends them.
struct ZmqLimits {
  int sent = 1'000;         // messages that wait for the peer; what is more is refused, or dropped
  int received = 64;        // and those of it that wait here; more stay with him
  int frame_bytes = 1'024;  // who sends a longer frame is cut off. ZeroMQ's own greetings count
};

// Used by one thread at a time.
class ZmqSocket {
 public:
  enum class Type { kPub, kRouter, kSub, kDealer };  // the latter two for tests

  // Bound to "tcp://HOST:PORT" (port 0: any free one) or "ipc://PATH". UNAVAILABLE: it cannot be.
  static absl::StatusOr<ZmqSocket> Bind(const ZmqContext& context, Type type,
                                        const std::string& endpoint, const ZmqLimits& limits);
  static absl::StatusOr<ZmqSocket> Connect(const ZmqContext& context, Type type,
                                           const std::string& endpoint);

  // Where it is bound, the port filled in.
  const std::string& endpoint() const { return endpoint_; }
  void Subscribe(absl::string_view topic);

  // All frames, or none.
  enum class Sent { kSent, kNoRoom, kGone };  // the latter two: the peer has none, or there is none
  Sent Send(absl::Span<const absl::string_view> frames);
  // nullopt: nothing came within the time. Of a message with more than `frames_max` frames only so
  // many are returned, and one more that is empty: the rest is thrown away without a copy.
  std::optional<std::vector<std::string>> Receive(absl::Duration within, size_t frames_max = 8);

 private:
  struct Closer {
    void operator()(void* socket) const;
  };
  explicit ZmqSocket(void* socket) : socket_(socket) {}

  std::unique_ptr<void, Closer> socket_;
  std::string endpoint_;
};

}  // namespace moonpool::cli
