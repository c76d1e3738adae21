#include "bench/limits/loopback.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"

namespace moonpool::bench {

absl::StatusOr<LoopbackSocket> LoopbackSocket::Connect(const std::string& congestion_control) {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const absl::Cleanup close_listener = [listener] { close(listener); };
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  if (bind(listener, generic, length) != 0 || listen(listener, 1) != 0 ||
      getsockname(listener, generic, &length) != 0 || connect(client, generic, length) != 0) {
    const absl::Status status = absl::ErrnoToStatus(errno, "loopback socket");
    close(client);
    return status;
  }
  LoopbackSocket pair(client, accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
  if (pair.server_ < 0) return absl::ErrnoToStatus(errno, "accept");
  const int on = 1;
  for (int end : {pair.client_, pair.server_}) {
    setsockopt(end, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    if (congestion_control.empty()) continue;
    if (setsockopt(end, IPPROTO_TCP, TCP_CONGESTION, congestion_control.data(),
                   static_cast<socklen_t>(congestion_control.size())) != 0) {
      return absl::ErrnoToStatus(errno, absl::StrCat("congestion control ", congestion_control));
    }
  }
  return pair;
}

absl::StatusOr<LoopbackSocket> LoopbackSocket::ConnectUnix() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return absl::ErrnoToStatus(errno, "socketpair");
  }
  return LoopbackSocket(ends[0], ends[1]);
}

LoopbackSocket::~LoopbackSocket() {
  if (client_ >= 0) close(client_);
  if (server_ >= 0) close(server_);
}

void LoopbackSocket::Shutdown() {
  shutdown(client_, SHUT_RDWR);
  shutdown(server_, SHUT_RDWR);
}

bool SendAll(int socket, const std::byte* from, size_t size) {
  while (size > 0) {
    const ssize_t sent = send(socket, from, size, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    from += sent;
    size -= static_cast<size_t>(sent);
  }
  return true;
}

bool ReceiveAll(int socket, std::byte* into, size_t size) {
  while (size > 0) {
    const ssize_t got = recv(socket, into, size, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    into += got;
    size -= static_cast<size_t>(got);
  }
  return true;
}

}  // namespace moonpool::bench
