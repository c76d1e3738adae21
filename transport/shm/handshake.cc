#include "transport/shm/handshake.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "common/error.h"
#include "common/status_macros.h"
#include "transport/waiter.h"

namespace moonpool::transport {
namespace {

// What the largest answer brings: every segment twice, and the page of pins.
constexpr size_t kDescriptorsOfAnswerMax = 2 * kMappedSegmentsMax + 1;
static_assert(kDescriptorsOfAnswerMax <= kDescriptorsMax);

absl::Status BadAnswer(absl::string_view what) {
  return MakeError(absl::StatusCode::kUnavailable, ErrorReason::kBadFrame, what);
}

// One frame, and the descriptors that came with it.
class AnswerReader {
 public:
  // True once the frame is complete.
  absl::StatusOr<bool> ReadSome(int fd) {
    const iovec vector{bytes_.data() + size_, needed_ - size_};
    alignas(cmsghdr) char control[CMSG_SPACE(kDescriptorsMax * sizeof(int))];
    msghdr message{};
    message.msg_iov = const_cast<iovec*>(&vector);
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    const ssize_t received = recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (received < 0) {
      if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) return false;
      return SocketError("receive", errno);
    }
    TakeDescriptors(&message);
    if (received == 0) return SocketError("receive", ECONNRESET);
    if ((message.msg_flags & MSG_CTRUNC) != 0) {
      return BadAnswer("descriptors were lost: is the limit of open files reached?");
    }
    // Each byte of the frame could bring some: this process's descriptors are not the peer's to
    // use.
    if (descriptors_.size() > kDescriptorsOfAnswerMax) {
      return BadAnswer("more descriptors than any answer has");
    }
    size_ += static_cast<size_t>(received);
    if (size_ < needed_) return false;
    if (needed_ > kFrameHeaderBytes) return true;
    ASSIGN_OR_RETURN(header_, ParseAnswerHeader(bytes_));
    needed_ = header_.frame_bytes();
    return size_ == needed_;
  }

  const FrameHeader& header() const { return header_; }
  ConstBytes body() const {
    return ConstBytes(bytes_).subspan(kFrameHeaderBytes, header_.body_bytes);
  }
  std::vector<UniqueFd>& descriptors() { return descriptors_; }

 private:
  void TakeDescriptors(msghdr* message) {
    for (cmsghdr* part = CMSG_FIRSTHDR(message); part != nullptr;
         part = CMSG_NXTHDR(message, part)) {
      if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
      const size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
      for (size_t i = 0; i < count; ++i) {
        int fd;
        std::memcpy(&fd, CMSG_DATA(part) + i * sizeof(int), sizeof(int));
        descriptors_.emplace_back(fd);
      }
    }
  }

  std::array<std::byte, kFrameBytesMax> bytes_;
  size_t size_ = 0;
  size_t needed_ = kFrameHeaderBytes;
  FrameHeader header_;
  std::vector<UniqueFd> descriptors_;
};

absl::StatusOr<ReceivedMemory> Sort(HelloAnswer answer, std::vector<UniqueFd> descriptors) {
  ReceivedMemory memory;
  const size_t segments = answer.segments.size();
  const bool is_writer = (answer.grants & kHelloMappedWriter) != 0;
  if ((answer.grants & kHelloMapping) == 0) {
    return MakeError(absl::StatusCode::kUnavailable, ErrorReason::kPeerUnreachable,
                     "the node gives no memory away");
  }
  if (descriptors.size() != segments + 1 + (is_writer ? segments : 0)) {
    return BadAnswer("not the descriptors that were announced");
  }
  for (size_t i = 0; i < segments; ++i) memory.read_only.push_back(std::move(descriptors[i]));
  memory.pins = std::move(descriptors[segments]);
  for (size_t i = segments + 1; i < descriptors.size(); ++i) {
    memory.writable.push_back(std::move(descriptors[i]));
  }
  memory.answer = std::move(answer);
  return memory;
}

}  // namespace

absl::StatusOr<ReceivedMemory> ReceiveMemory(int fd, const HelloRequest& hello,
                                             const ConnectDeadline& deadline, const Clock& clock) {
  std::array<std::byte, kFrameBytesMax> frame;
  const iovec vector{frame.data(), EncodeHello(hello, 1, frame.data())};
  ASSIGN_OR_RETURN(const size_t sent, Send(fd, absl::MakeConstSpan(&vector, 1)));
  if (sent != vector.iov_len) return SocketError("send", EAGAIN);
  AnswerReader reader;
  while (true) {
    ASSIGN_OR_RETURN(const bool is_complete, reader.ReadSome(fd));
    if (is_complete) break;
    RETURN_IF_ERROR(deadline.Check());
    std::vector<pollfd> waits = {{fd, POLLIN, 0}};
    PollOnce(&waits, deadline.context(), clock);
  }
  if (reader.header().type == FrameType::kError) return ParseError(reader.body());
  if (reader.header().type != FrameType::kHelloOk) return BadAnswer("not an answer to HELLO");
  ASSIGN_OR_RETURN(HelloAnswer answer, ParseHelloOk(reader.body()));
  RETURN_IF_ERROR(CheckWireVersion(answer.wire_major, answer.wire_minor));
  return Sort(std::move(answer), std::move(reader.descriptors()));
}

}  // namespace moonpool::transport
