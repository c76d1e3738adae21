// Sockets as values, and the few calls the stream servers and clients make on them.
#pragma once

#include <sys/socket.h>
#include <sys/uio.h>

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/unique_fd.h"

namespace moonpool::transport {

// UNAVAILABLE/PEER_UNREACHABLE with the text of errno `error`.
absl::Status SocketError(absl::string_view what, int error);

// Both move what can be moved without blocking. 0: would block. UNAVAILABLE/PEER_UNREACHABLE: the
// connection is gone (for Receive also: the peer has closed it).
absl::StatusOr<size_t> Receive(int fd, absl::Span<const iovec> vectors);
// `descriptors` travel with the first byte (Unix sockets; at most kDescriptorsMax).
inline constexpr size_t kDescriptorsMax = 250;
absl::StatusOr<size_t> Send(int fd, absl::Span<const iovec> vectors,
                            absl::Span<const int> descriptors = {});

// An idle connection as it should be: the peer has not closed, and nothing has arrived but perhaps
// the `expected` bytes (less than 64).
bool IsQuiet(int fd, size_t expected = 0);

// False once the peer has closed, also when there is still something to read.
bool IsOpen(int fd);

// A parsed "host:port" or path of a Unix socket.
struct SocketAddress {
  sockaddr_storage storage = {};
  socklen_t length = 0;
  int family() const { return storage.ss_family; }
  std::string ToString() const;  // "127.0.0.1:80", "[::1]:80", "/run/node.sock"
  bool is_loopback() const;      // 127/8 or ::1, also mapped
};

// "10.0.0.7:80" or "[fe80::1]:80". INVALID_ARGUMENT for anything else, names too.
absl::StatusOr<SocketAddress> ParseNumericAddress(absl::string_view address);
absl::StatusOr<SocketAddress> UnixAddress(absl::string_view path);
// Of a bound or connected socket.
SocketAddress LocalAddress(int fd);
SocketAddress RemoteAddress(int fd);

// Non-blocking and close-on-exec.
absl::StatusOr<UniqueFd> NewStreamSocket(int family);
// Starts to connect: OK also when it is still in progress (POLLOUT says when it is decided).
absl::Status StartConnect(int fd, const SocketAddress& address);

struct TcpTuning {
  std::string congestion_control;  // empty: the system's, reno towards the same host
  size_t send_buffer_bytes = 0;    // 0: tuned by the kernel
  size_t receive_buffer_bytes = 0;
};
// INVALID_ARGUMENT when the kernel does not know the congestion control.
absl::Status CheckTuning(const TcpTuning& tuning);
// No delay, keep-alive, and the tuning, as far as the kernel goes along. Buffers only take effect
// before the connection is made. `peer_is_local`: the other end is on this host.
void TuneTcp(int fd, const TcpTuning& tuning, bool peer_is_local);

}  // namespace moonpool::transport
