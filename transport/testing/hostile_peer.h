// A peer that speaks to a data port as it likes: raw bytes, half frames, nothing at all.
#pragma once

#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "common/version.h"
#include "transport/frame.h"

namespace moonpool::transport {

// Blocking, with a timeout that only a failing test reaches.
class HostilePeer {
 public:
  // Takes a connected socket.
  explicit HostilePeer(int fd) : fd_(fd) {
    const timeval patience{.tv_sec = 20, .tv_usec = 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  }
  HostilePeer(HostilePeer&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  ~HostilePeer() { Close(); }

  int fd() const { return fd_; }
  void Close() {
    if (fd_ >= 0) close(std::exchange(fd_, -1));
  }
  void StopSending() { shutdown(fd_, SHUT_WR); }

  // False when the server no longer takes it.
  bool Send(const void* bytes, size_t size) {
    return send(fd_, bytes, size, MSG_NOSIGNAL) == static_cast<ssize_t>(size);
  }
  bool Send(const std::string& bytes) { return Send(bytes.data(), bytes.size()); }
  bool Send(const std::function<size_t(std::byte* to)>& encode) {
    std::array<std::byte, kFrameBytesMax> frame;
    return Send(frame.data(), encode(frame.data()));
  }
  bool SendHello(Incarnation incarnation, uint16_t wire_major = kWireMajor) {
    return Send([&](std::byte* to) {
      return EncodeHello({.wire_major = wire_major,
                          .wire_minor = 0,
                          .incarnation = incarnation,
                          .client_id = 0,
                          .wants = 0},
                         1, to);
    });
  }

  struct Answer {
    FrameHeader header;
    absl::Status error;  // of an ERROR frame
  };
  // nullopt: the server has closed the connection (or sent no frame).
  std::optional<Answer> TakeAnswer() {
    std::array<std::byte, kFrameBytesMax> frame;
    if (!Take(frame.data(), kFrameHeaderBytes)) return std::nullopt;
    const auto header = ParseAnswerHeader(frame);
    if (!header.ok()) return std::nullopt;
    if (!Take(frame.data() + kFrameHeaderBytes, header->frame_bytes() - kFrameHeaderBytes)) {
      return std::nullopt;
    }
    Answer answer{*header, absl::OkStatus()};
    if (header->type == FrameType::kError) {
      answer.error = ParseError(ConstBytes(frame).subspan(kFrameHeaderBytes, header->body_bytes));
    }
    return answer;
  }
  // Reads (and throws away) until the server closes. False: it did not in time.
  bool SeesClose() {
    std::array<char, 65536> buffer;
    while (true) {
      const ssize_t received = recv(fd_, buffer.data(), buffer.size(), 0);
      if (received == 0) return true;
      if (received < 0) return errno != EAGAIN && errno != EWOULDBLOCK;
    }
  }
  bool Take(std::byte* to, size_t size) {
    return size == 0 || recv(fd_, to, size, MSG_WAITALL) == static_cast<ssize_t>(size);
  }

 private:
  int fd_;
};

}  // namespace moonpool::transport
