#include "transport/stream/socket.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/error.h"
#include "common/status_macros.h"

namespace moonpool::transport {
namespace {

bool WouldBlock(int error) { return error == EAGAIN || error == EWOULDBLOCK; }

absl::Status BadAddress(absl::string_view address) {
  return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kBadArgument,
                   absl::StrCat("not a numeric address and port: ", address));
}

// sendmsg without the C library in between. A part may get a newer owner, who writes into it, while
// the kernel copies it out; the reader's checksum tells. ThreadSanitizer's wrapper of sendmsg would
// call that a data race.
ssize_t RawSendmsg(int fd, const msghdr* message, int flags) {
  return syscall(SYS_sendmsg, fd, message, flags);
}

template <typename T>
void SetOption(int fd, int level, int name, T value) {
  // What the kernel refuses costs speed only.
  [[maybe_unused]] const int ignored = setsockopt(fd, level, name, &value, sizeof(value));
}

}  // namespace

absl::Status SocketError(absl::string_view what, int error) {
  return MakeError(absl::StatusCode::kUnavailable, ErrorReason::kPeerUnreachable,
                   absl::StrCat(what, ": ", std::strerror(error)));
}

absl::StatusOr<size_t> Receive(int fd, absl::Span<const iovec> vectors) {
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(vectors.data());
  message.msg_iovlen = vectors.size();
  while (true) {
    const ssize_t received = recvmsg(fd, &message, MSG_DONTWAIT);
    if (received > 0) return static_cast<size_t>(received);
    if (received == 0) return SocketError("receive", ECONNRESET);
    if (WouldBlock(errno)) return 0;
    if (errno != EINTR) return SocketError("receive", errno);
  }
}

absl::StatusOr<size_t> Send(int fd, absl::Span<const iovec> vectors,
                            absl::Span<const int> descriptors) {
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(vectors.data());
  message.msg_iovlen = vectors.size();
  alignas(cmsghdr) char control[CMSG_SPACE(kDescriptorsMax * sizeof(int))];
  if (!descriptors.empty()) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(descriptors.size() * sizeof(int));
    cmsghdr* rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(descriptors.size() * sizeof(int));
    std::memcpy(CMSG_DATA(rights), descriptors.data(), descriptors.size() * sizeof(int));
  }
  while (true) {
    const ssize_t sent = RawSendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent >= 0) return static_cast<size_t>(sent);
    // ENOTCONN: a connect that is still in progress (AF_UNIX says so, TCP would block).
    if (WouldBlock(errno) || errno == ENOTCONN) return 0;
    if (errno != EINTR) return SocketError("send", errno);
  }
}

bool IsQuiet(int fd, size_t expected) {
  char bytes[64];
  const size_t looked_for = std::min(expected + 1, sizeof(bytes));
  const ssize_t received = recv(fd, bytes, looked_for, MSG_PEEK | MSG_DONTWAIT);
  if (received < 0) return WouldBlock(errno) || errno == EINTR;
  return received > 0 && static_cast<size_t>(received) <= expected;
}

bool IsOpen(int fd) {
  pollfd look{fd, POLLRDHUP, 0};
  return poll(&look, 1, 0) == 0;
}

std::string SocketAddress::ToString() const {
  char text[INET6_ADDRSTRLEN] = "";
  if (family() == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(&storage);
    inet_ntop(AF_INET, &v4->sin_addr, text, sizeof(text));
    return absl::StrCat(text, ":", ntohs(v4->sin_port));
  }
  if (family() == AF_INET6) {
    const auto* v6 = reinterpret_cast<const sockaddr_in6*>(&storage);
    inet_ntop(AF_INET6, &v6->sin6_addr, text, sizeof(text));
    return absl::StrCat("[", text, "]:", ntohs(v6->sin6_port));
  }
  if (family() == AF_UNIX) return reinterpret_cast<const sockaddr_un*>(&storage)->sun_path;
  return "";
}

bool SocketAddress::is_loopback() const {
  if (family() == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(&storage);
    return ntohl(v4->sin_addr.s_addr) >> 24 == 127;
  }
  if (family() != AF_INET6) return false;
  const in6_addr& v6 = reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_addr;
  return IN6_IS_ADDR_LOOPBACK(&v6) || (IN6_IS_ADDR_V4MAPPED(&v6) && v6.s6_addr[12] == 127);
}

absl::StatusOr<SocketAddress> ParseNumericAddress(absl::string_view address) {
  const size_t colon = address.rfind(':');
  uint32_t port = 0;
  if (colon == absl::string_view::npos || !absl::SimpleAtoi(address.substr(colon + 1), &port) ||
      port > 65535) {
    return BadAddress(address);
  }
  absl::string_view host = address.substr(0, colon);
  SocketAddress result;
  if (absl::ConsumePrefix(&host, "[") && absl::ConsumeSuffix(&host, "]")) {
    auto* v6 = reinterpret_cast<sockaddr_in6*>(&result.storage);
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(static_cast<uint16_t>(port));
    result.length = sizeof(sockaddr_in6);
    if (inet_pton(AF_INET6, std::string(host).c_str(), &v6->sin6_addr) == 1) return result;
    return BadAddress(address);
  }
  auto* v4 = reinterpret_cast<sockaddr_in*>(&result.storage);
  v4->sin_family = AF_INET;
  v4->sin_port = htons(static_cast<uint16_t>(port));
  result.length = sizeof(sockaddr_in);
  if (inet_pton(AF_INET, std::string(host).c_str(), &v4->sin_addr) == 1) return result;
  return BadAddress(address);
}

absl::StatusOr<SocketAddress> UnixAddress(absl::string_view path) {
  SocketAddress result;
  auto* unix_address = reinterpret_cast<sockaddr_un*>(&result.storage);
  if (path.empty() || path.size() >= sizeof(unix_address->sun_path)) {
    return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kBadArgument,
                     absl::StrCat("path of a socket must have 1 to ",
                                  sizeof(unix_address->sun_path) - 1, " bytes: ", path));
  }
  unix_address->sun_family = AF_UNIX;
  std::memcpy(unix_address->sun_path, path.data(), path.size());
  result.length = sizeof(sockaddr_un);
  return result;
}

SocketAddress LocalAddress(int fd) {
  SocketAddress address;
  address.length = sizeof(address.storage);
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address.storage), &address.length) != 0) {
    return SocketAddress{};
  }
  return address;
}

SocketAddress RemoteAddress(int fd) {
  SocketAddress address;
  address.length = sizeof(address.storage);
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&address.storage), &address.length) != 0) {
    return SocketAddress{};
  }
  return address;
}

absl::StatusOr<UniqueFd> NewStreamSocket(int family) {
  UniqueFd fd(socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return SocketError("socket", errno);
  return fd;
}

absl::Status StartConnect(int fd, const SocketAddress& address) {
  const auto* raw = reinterpret_cast<const sockaddr*>(&address.storage);
  if (connect(fd, raw, address.length) == 0 || errno == EINPROGRESS) return absl::OkStatus();
  return SocketError(absl::StrCat("connect to ", address.ToString()), errno);
}

absl::Status CheckTuning(const TcpTuning& tuning) {
  if (tuning.congestion_control.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const UniqueFd fd, NewStreamSocket(AF_INET));
  const std::string& name = tuning.congestion_control;
  if (setsockopt(fd.get(), IPPROTO_TCP, TCP_CONGESTION, name.data(),
                 static_cast<socklen_t>(name.size())) == 0) {
    return absl::OkStatus();
  }
  return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kBadArgument,
                   absl::StrCat("congestion control ", name, ": ", std::strerror(errno)),
                   {.hint = "see net.ipv4.tcp_allowed_congestion_control"});
}

void TuneTcp(int fd, const TcpTuning& tuning, bool peer_is_local) {
  SetOption(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  // A peer that lost power is noticed after about two minutes.
  SetOption(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  SetOption(fd, IPPROTO_TCP, TCP_KEEPIDLE, 60);
  SetOption(fd, IPPROTO_TCP, TCP_KEEPINTVL, 15);
  SetOption(fd, IPPROTO_TCP, TCP_KEEPCNT, 4);
  if (tuning.send_buffer_bytes > 0) {
    SetOption(fd, SOL_SOCKET, SO_SNDBUF, static_cast<int>(tuning.send_buffer_bytes));
  }
  if (tuning.receive_buffer_bytes > 0) {
    SetOption(fd, SOL_SOCKET, SO_RCVBUF, static_cast<int>(tuning.receive_buffer_bytes));
  }
  const char* chosen = tuning.congestion_control.c_str();
  if (tuning.congestion_control.empty() && peer_is_local) chosen = "reno";
  if (*chosen != '\0') {
    [[maybe_unused]] const int ignored = setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, chosen,
                                                    static_cast<socklen_t>(std::strlen(chosen)));
  }
}

}  // namespace moonpool::transport
