#include "transport/stream/output_queue.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <vector>

#include "common/random.h"
#include "common/testing/status_matchers.h"
#include "transport/frame.h"
#include "transport/stream/socket.h"

namespace moonpool::transport {
namespace {

class OutputQueueTest : public testing::Test {
 protected:
  void SetUp() override {
    std::array<int, 2> fds;
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds.data()), 0);
    near_ = UniqueFd(fds[0]);
    far_ = UniqueFd(fds[1]);
  }
  void AddSmall(size_t bytes) {
    std::byte* to = queue_.Reserve();
    for (size_t i = 0; i < bytes; ++i) expected_.push_back(to[i] = std::byte(random_.Next()));
    queue_.Commit(bytes);
  }
  void AddBorrowed(size_t bytes) {
    payloads_.emplace_back(bytes);
    for (std::byte& byte : payloads_.back()) expected_.push_back(byte = std::byte(random_.Next()));
    queue_.Borrow(payloads_.back());
  }
  void Drain() {
    std::array<std::byte, 65536> buffer;
    ssize_t received;
    while ((received = recv(far_.get(), buffer.data(), buffer.size(), 0)) > 0) {
      got_.insert(got_.end(), buffer.begin(), buffer.begin() + received);
    }
  }

  UniqueFd near_, far_;
  OutputQueue queue_;
  Random random_{3};
  std::vector<std::vector<std::byte>> payloads_;
  std::vector<std::byte> expected_;
  std::vector<std::byte> got_;
};

TEST_F(OutputQueueTest, KeepsTheOrderOverEveryKindOfPartialSend) {
  payloads_.reserve(10'000);
  for (int round = 0; round < 2000; ++round) {
    switch (random_.Below(3)) {
      case 0: AddSmall(random_.Below(kFrameBytesMax)); break;
      case 1: AddBorrowed(random_.Below(50'000)); break;
      default:
        ASSERT_OK_AND_ASSIGN(const size_t sent,
                             queue_.Flush(near_.get(), 1 + random_.Below(100'000)));
        if (sent == 0 || random_.OneIn(3)) Drain();
    }
    ASSERT_EQ(queue_.position(), expected_.size());
  }
  while (!queue_.empty()) {
    ASSERT_THAT(queue_.Flush(near_.get(), 1 << 20), IsOk());
    Drain();
  }
  EXPECT_EQ(queue_.sent_position(), expected_.size());
  EXPECT_EQ(queue_.small_bytes(), 0u);
  EXPECT_EQ(queue_.borrowed_count(), 0u);
  EXPECT_TRUE(got_ == expected_);
}

TEST_F(OutputQueueTest, FullSocketIsNoErrorAndAClosedOneIs) {
  AddBorrowed(16 << 20);
  absl::StatusOr<size_t> sent = size_t{1};
  while (sent.ok() && *sent > 0) sent = queue_.Flush(near_.get(), 1 << 20);
  EXPECT_THAT(sent, IsOk());
  far_.Close();
  EXPECT_THAT(queue_.Flush(near_.get(), 1 << 20),
              Fails(absl::StatusCode::kUnavailable, ErrorReason::kPeerUnreachable));
}

TEST_F(OutputQueueTest, ClearForgetsWhatIsNotSent) {
  AddSmall(100);
  AddBorrowed(100);
  queue_.Clear();
  EXPECT_TRUE(queue_.empty());
  EXPECT_EQ(queue_.position(), 0u);
  ASSERT_OK_AND_ASSIGN(const size_t sent, queue_.Flush(near_.get(), 1000));
  EXPECT_EQ(sent, 0u);
}

}  // namespace
}  // namespace moonpool::transport
