// Blocking frames on a raw socket, for peers that are scripted.
#include <sys/socket.h>

#include <array>
#include <cstring>
#include <variant>

#include "common/version.h"
#include "transport/testing/conformance.h"

namespace moonpool::transport {

HelloRequest TakeHello(int fd) {
  std::array<std::byte, Padded(kFrameHeaderBytes + kHelloBodyBytes)> frame;
  const ssize_t received = recv(fd, frame.data(), frame.size(), MSG_WAITALL);
  if (received != static_cast<ssize_t>(frame.size())) return {};
  const auto header = ParseRequestHeader(frame);
  if (!header.ok() || header->type != FrameType::kHello) return {};
  const auto body =
      ParseRequestBody(*header, ConstBytes(frame).subspan(kFrameHeaderBytes, kHelloBodyBytes));
  return body.ok() ? std::get<HelloRequest>(*body) : HelloRequest{};
}

bool SendFrame(int fd, const std::function<size_t(std::byte* to)>& encode,
               absl::Span<const int> descriptors) {
  std::array<std::byte, kFrameBytesMax> frame;
  iovec vector{frame.data(), encode(frame.data())};
  msghdr message{};
  message.msg_iov = &vector;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(8 * sizeof(int))];
  if (!descriptors.empty()) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(descriptors.size() * sizeof(int));
    cmsghdr* rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(descriptors.size() * sizeof(int));
    std::memcpy(CMSG_DATA(rights), descriptors.data(), descriptors.size() * sizeof(int));
  }
  return sendmsg(fd, &message, MSG_NOSIGNAL) == static_cast<ssize_t>(vector.iov_len);
}

HelloAnswer PlainHelloAnswer() {
  return HelloAnswer{.wire_major = kWireMajor,
                     .wire_minor = kWireMinor,
                     .incarnation = Incarnation{0x1234},
                     .grants = 0,
                     .pin_slots = 0,
                     .segments = {}};
}

}  // namespace moonpool::transport
