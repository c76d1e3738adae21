// Nodes of other minor versions, as recorded bytes.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "common/checksum.h"
#include "common/testing/status_matchers.h"
#include "transport/part_header.h"
#include "transport/stream/socket.h"
#include "transport/tcp/tcp_transport.h"
#include "transport/testing/conformance_scene.h"
#include "transport/testing/hostile_peer.h"
#include "transport/testing/raw_listener.h"

namespace moonpool::transport {
namespace {

constexpr size_t kTypeAt = 2;
constexpr size_t kFlagsAt = 3;
constexpr size_t kHelloMinorAt = kFrameHeaderBytes + 6;
constexpr std::array<uint8_t, 64> kHelloBytes = {
    0x4d, 0x50, 0x81, 0x01, 32, 0, 0, 0,   // "MP", HELLO_OK to a HELLO
    1,    0,    0,    0,    0,  0, 0, 0,   // request 1
    0,    0,    0,    0,    0,  0, 0, 0,   // nothing is attached
    0x4d, 0x50, 0x44, 0x50, 1,  0, 0, 0,   // "MPDP", 1.0
    0x34, 0x12, 0,    0,    0,  0, 0, 0};  // incarnation; zeros behind it
constexpr std::array<uint8_t, 64> kReadOkBytes = {
    0x4d, 0x50, 0x82, 0x02, 0, 0, 0, 0,   // "MP", READ_OK to a READ
    2,    0,    0,    0,    0, 0, 0, 0,   // request 2
    128,  0,    0,    0,    0, 0, 0, 0};  // a header and 64 bytes
constexpr std::array<uint8_t, 64> kOkBytes = {
    0x4d, 0x50, 0x83, 0x02, 0, 0, 0, 0,   // "MP", OK to a READ
    2,    0,    0,    0,    0, 0, 0, 0};  // request 2

class OtherMinor : public testing::Test {
 protected:
  static constexpr Incarnation kIncarnation{0x1234};

  // Reads what a node of this minor has.
  absl::Status Read(uint8_t minor, bool is_damaged, bool verify = false) {
    const SealRecord record = RecordAt(0, 64, 1);
    std::vector<std::byte> part(kPartHeaderBytes, std::byte{0});
    const std::vector<std::byte> payload = PatternBytes(64, 1);
    PartHeader header = HeaderOf(record);
    header.payload_checksum = Checksum(payload) + (is_damaged ? 1 : 0);
    EncodePartHeader(header, part.data());
    part.insert(part.end(), payload.begin(), payload.end());

    const int listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const auto any = ParseNumericAddress("127.0.0.1:0");
    EXPECT_EQ(bind(listening, reinterpret_cast<const sockaddr*>(&any->storage), any->length), 0);
    EXPECT_EQ(listen(listening, 1), 0);
    const PeerAddress address{.name = "node",
                              .incarnation = kIncarnation,
                              .host_id = "",
                              .tcp_address = LocalAddress(listening).ToString(),
                              .shm_path = ""};
    const RawListener node(listening, [&](int fd) {
      HostilePeer client(dup(fd));
      std::array<std::byte, 64> request;
      std::array<uint8_t, 64> hello = kHelloBytes;
      hello[kHelloMinorAt] = minor;
      if (!client.Take(request.data(), request.size())) return;
      client.Send(hello.data(), hello.size());
      if (!client.Take(request.data(), request.size())) return;
      flags_ = static_cast<uint8_t>(request[kFlagsAt]);
      std::string answer(reinterpret_cast<const char*>(kReadOkBytes.data()), kReadOkBytes.size());
      answer.append(reinterpret_cast<const char*>(part.data()), part.size());
      if (minor >= kConfirmMinor && !verify) {
        answer.append(reinterpret_cast<const char*>(kOkBytes.data()), kOkBytes.size());
      }
      client.Send(answer);
      // Until it hangs up.
      while (client.Take(request.data(), request.size())) {
        doubts_ += request[kTypeAt] == static_cast<std::byte>(FrameType::kDoubt) ? 1 : 0;
      }
    });
    const auto transport = NewTcpTransport({}, clock_);
    const CallContext context{.deadline = clock_.Now() + absl::Seconds(20), .cancel = {}};
    ASSIGN_OR_RETURN(const auto channel, transport->Connect(address, context));
    std::vector<std::byte> got(payload.size());
    ReadOp read = ReadOf(record.generation, record.extent, absl::MakeSpan(got));
    read.verify = verify;
    RETURN_IF_ERROR(channel->Submit(&read));
    Channel* const one[] = {channel.get()};
    RETURN_IF_ERROR(CompleteAll(one, context, waiter_));
    EXPECT_TRUE(got == payload);
    return read.status;
  }

  SteadyClock clock_;
  PollWaiter waiter_{clock_};
  std::atomic<int> flags_{-1};
  std::atomic<int> doubts_{0};
};

TEST_F(OtherMinor, ANodeThatCannotConfirmIsNotAskedToAndItsBytesAreVerified) {
  EXPECT_THAT(Read(0, /*is_damaged=*/false), IsOk());
  EXPECT_EQ(flags_, 0);
  EXPECT_THAT(Read(0, /*is_damaged=*/true),
              Fails(absl::StatusCode::kDataLoss, ErrorReason::kChecksumMismatch));
}

TEST_F(OtherMinor, ANodeThatConfirmsIsBelieved) {
  for (const uint8_t minor : {uint8_t{1}, uint8_t{7}}) {
    EXPECT_THAT(Read(minor, /*is_damaged=*/false), IsOk());
    EXPECT_EQ(flags_, kFlagConfirm);
    EXPECT_THAT(Read(minor, /*is_damaged=*/true), IsOk()) << "nobody has looked";
  }
}

TEST_F(OtherMinor, ANodeIsToldOfDamageWhereItUnderstandsThat) {
  const auto is_damaged = Fails(absl::StatusCode::kDataLoss, ErrorReason::kChecksumMismatch);
  for (const uint8_t minor : {uint8_t{0}, uint8_t{2}}) {
    EXPECT_THAT(Read(minor, /*is_damaged=*/true, /*verify=*/true), is_damaged);
    EXPECT_EQ(doubts_, 0) << int{minor};
  }
  EXPECT_THAT(Read(kDoubtMinor, /*is_damaged=*/false, /*verify=*/true), IsOk());
  EXPECT_EQ(doubts_, 0);
  EXPECT_THAT(Read(kDoubtMinor, /*is_damaged=*/true, /*verify=*/true), is_damaged);
  EXPECT_EQ(doubts_, 1);
}

}  // namespace
}  // namespace moonpool::transport
