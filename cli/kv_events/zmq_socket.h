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

// Used by one thread at a time.
class ZmqSocket {
 public:
  enum class Type { kPub, kRouter, kSub, kDealer };  // the latter two for tests

  // Bound to "tcp://HOST:PORT" (port 0: any free one) or "ipc://PATH". Up to `high_water` messages
  // wait for each peer; what is more is dropped. UNAVAILABLE: it cannot be bound.
  static absl::StatusOr<ZmqSocket> Bind(const ZmqContext& context, Type type,
                                        const std::string& endpoint, int high_water);
  static absl::StatusOr<ZmqSocket> Connect(const ZmqContext& context, Type type,
                                           const std::string& endpoint);

  // Where it is bound, the port filled in.
  const std::string& endpoint() const { return endpoint_; }
  void Subscribe(absl::string_view topic);

  // All frames, or none.
  enum class Sent { kSent, kNoRoom, kGone };  // the latter two: the peer has none, or there is none
  Sent Send(absl::Span<const absl::string_view> frames);
  // nullopt: nothing came within the time.
  std::optional<std::vector<std::string>> Receive(absl::Duration within);

 private:
  struct Closer {
    void operator()(void* socket) const;
  };
  explicit ZmqSocket(void* socket) : socket_(socket) {}

  std::unique_ptr<void, Closer> socket_;
  std::string endpoint_;
};

}  // namespace moonpool::cli
