#include "transport/stream/stream_drivers.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <vector>

#include "common/error.h"
#include "common/testing/status_matchers.h"
#include "transport/stream/connect.h"
#include "transport/testing/conformance.h"

namespace moonpool::transport {
namespace {

constexpr uint64_t kPayloadBytes = 4096;
constexpr uint64_t kReadId = 2;  // behind HELLO

// A stream with one READ outstanding, and the peer's end of its socket.
class Scene {
 public:
  Scene() {
    std::array<int, 2> ends;
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
    peer_ = UniqueFd(ends[1]);
    stream_.emplace(UniqueFd(ends[0]), HelloFor(Incarnation{0x1234}, 0, 0), ClientStream::Limits{},
                    nullptr);
    op_.generation = Generation{1};
    op_.extent = Extent{SegmentId{0}, 0, kPartHeaderBytes + kPayloadBytes};
    op_.into = {MutableBytes(payload_)};
    EXPECT_THAT(stream_->Add(&op_), IsOk());
  }

  ClientStream& stream() { return *stream_; }
  const ReadOp& op() const { return op_; }
  bool AnswerHello() {
    TakeHello(peer_.get());
    return SendFrame(peer_.get(),
                     [](std::byte* to) { return EncodeHelloOk(1, PlainHelloAnswer(), to); });
  }
  // Once the READ is there: the stream takes no answer to what it has not sent.
  bool RefuseRead() {
    std::array<std::byte, 64> request;
    const ssize_t received = recv(peer_.get(), request.data(), request.size(), MSG_WAITALL);
    return received == static_cast<ssize_t>(request.size()) &&
           SendFrame(peer_.get(), [](std::byte* to) {
             return EncodeError(
                 FrameType::kRead, kReadId,
                 MakeError(absl::StatusCode::kNotFound, ErrorReason::kStaleGeneration, "gone"), to);
           });
  }
  void ClosePeer() { peer_.Close(); }

 private:
  std::vector<std::byte> payload_ = std::vector<std::byte>(kPayloadBytes);
  ReadOp op_;
  UniqueFd peer_;
  std::optional<ClientStream> stream_;  // fails what it still has when it ends
};

// True once it is over; false when nothing comes for as long as a test may take.
bool AwaitEnd(const StreamDrivers::Loan& loan) {
  pollfd wait{loan.fd(), POLLIN, 0};
  return poll(&wait, 1, 20'000) == 1 && loan.is_over();
}

TEST(StreamDrivers, AStreamIsDrivenToItsEnd) {
  StreamDrivers drivers(1);
  Scene scene;
  std::optional<StreamDrivers::Loan> loan = drivers.Lend(scene.stream());
  ASSERT_TRUE(loan.has_value());
  ASSERT_TRUE(scene.AnswerHello());
  ASSERT_TRUE(scene.RefuseRead());
  ASSERT_TRUE(AwaitEnd(*loan));
  EXPECT_TRUE(loan->TakeMoved());
  EXPECT_FALSE(loan->TakeMoved());
  loan.reset();
  EXPECT_TRUE(scene.op().done);
  EXPECT_THAT(scene.op().status, Fails(absl::StatusCode::kNotFound, ErrorReason::kStaleGeneration));
  EXPECT_THAT(scene.stream().failure(), IsOk());
}

TEST(StreamDrivers, ALoanEndsWithItsConnection) {
  StreamDrivers drivers(1);
  Scene scene;
  std::optional<StreamDrivers::Loan> loan = drivers.Lend(scene.stream());
  ASSERT_TRUE(loan.has_value());
  scene.ClosePeer();
  ASSERT_TRUE(AwaitEnd(*loan));
  loan.reset();
  EXPECT_TRUE(scene.op().done);
  EXPECT_THAT(scene.stream().failure(),
              Fails(absl::StatusCode::kUnavailable, ErrorReason::kPeerUnreachable));
}

TEST(StreamDrivers, WhatIsTakenBackIsTheCallersAgain) {
  StreamDrivers drivers(1);
  Scene scene;
  std::optional<StreamDrivers::Loan> loan = drivers.Lend(scene.stream());
  ASSERT_TRUE(loan.has_value());
  ASSERT_TRUE(scene.AnswerHello());
  loan.reset();
  EXPECT_FALSE(scene.op().done);
  scene.stream().Fail(absl::CancelledError("enough"));
  EXPECT_EQ(scene.op().status, absl::CancelledError("enough"));
}

TEST(StreamDrivers, ThereAreNoMoreLoansThanThreads) {
  StreamDrivers none(0);
  StreamDrivers drivers(2);
  Scene first, second, third;
  EXPECT_FALSE(none.Lend(first.stream()).has_value());
  std::optional<StreamDrivers::Loan> one = drivers.Lend(first.stream());
  const std::optional<StreamDrivers::Loan> two = drivers.Lend(second.stream());
  ASSERT_TRUE(one.has_value() && two.has_value());
  EXPECT_FALSE(drivers.Lend(third.stream()).has_value());
  one.reset();
  EXPECT_TRUE(drivers.Lend(third.stream()).has_value());
}

TEST(StreamDrivers, AForkedChildHasNoThreads) {
  auto drivers = std::make_unique<StreamDrivers>(1);
  Scene scene;
  drivers->Lend(scene.stream()).reset();  // the thread runs
  const pid_t child = fork();
  if (child == 0) {
    const bool is_refused = !drivers->Lend(scene.stream()).has_value();
    drivers.reset();
    _exit(is_refused ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_TRUE(drivers->Lend(scene.stream()).has_value());
}

}  // namespace
}  // namespace moonpool::transport
