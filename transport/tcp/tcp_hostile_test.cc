// What a data port does with peers that do not play by the rules.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/checksum.h"
#include "common/log.h"
#include "common/random.h"
#include "common/testing/status_matchers.h"
#include "transport/stream/socket.h"
#include "transport/tcp/tcp_server.h"
#include "transport/tcp/tcp_transport.h"
#include "transport/testing/conformance_scene.h"
#include "transport/testing/fake_target.h"
#include "transport/testing/hostile_peer.h"
#include "transport/testing/raw_listener.h"

namespace moonpool::transport {
namespace {

constexpr Incarnation kIncarnation{0x1234};

class TcpHostileTest : public testing::Test {
 protected:
  void Start(const StreamServerLimits& limits = {}) {
    TcpServerOptions options;
    options.limits = limits;
    server_ = NewTcpServer(target_, options, clock_, Logger::Null());
    ASSERT_THAT(server_->Start(), IsOk());
  }
  void TearDown() override {
    if (server_ != nullptr) server_->Stop();
  }

  HostilePeer Connect() {
    const auto address = ParseNumericAddress(server_->address());
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT_EQ(connect(fd, reinterpret_cast<const sockaddr*>(&address->storage), address->length),
              0);
    return HostilePeer(fd);
  }
  HostilePeer Greeted() {
    HostilePeer peer = Connect();
    EXPECT_TRUE(peer.SendHello(kIncarnation));
    const auto answer = peer.TakeAnswer();
    EXPECT_TRUE(answer.has_value() && answer->header.type == FrameType::kHelloOk);
    return peer;
  }
  // Newer than anything that mutated bytes may say.
  SealRecord HonestRecord(size_t payload_bytes) const {
    SealRecord record = RecordAt(32 << 20, payload_bytes, counter_);
    record.generation = Generation::Of(Term{UINT32_MAX}, UINT32_MAX / 2 + counter_);
    return record;
  }
  // Honest work goes through all the same.
  void ExpectServes() {
    const auto transport = NewTcpTransport({}, clock_);
    const PeerAddress address{.name = "node",
                              .incarnation = kIncarnation,
                              .host_id = "",
                              .tcp_address = server_->address(),
                              .shm_path = ""};
    const CallContext context{.deadline = clock_.Now() + absl::Seconds(20), .cancel = {}};
    ASSERT_OK_AND_ASSIGN(const auto channel, transport->Connect(address, context));
    const std::vector<std::byte> payload = PatternBytes(300'000, ++counter_);
    WriteOp write = WriteOf(HonestRecord(payload.size()), payload);
    std::vector<std::byte> got(payload.size());
    ASSERT_THAT(channel->Submit(&write), IsOk());
    Channel* const one[] = {channel.get()};
    ASSERT_THAT(CompleteAll(one, context, waiter_), IsOk());
    ASSERT_THAT(write.status, IsOk());
    ReadOp read = ReadOf(write.record.generation, write.record.extent, absl::MakeSpan(got));
    ASSERT_THAT(channel->Submit(&read), IsOk());
    ASSERT_THAT(CompleteAll(one, context, waiter_), IsOk());
    ASSERT_THAT(read.status, IsOk());
    EXPECT_TRUE(got == payload);
  }
  bool SendExtent(HostilePeer& peer, FrameType type, const SealRecord& record,
                  uint64_t request_id = 2) {
    return peer.Send([&](std::byte* to) {
      return EncodeExtentRequest(type, 0, request_id, {record.generation, record.extent}, to);
    });
  }
  bool EventuallyCounts(uint64_t ServerCounters::*counter, uint64_t value) {
    return Eventually([&] { return server_->counters().*counter == value; });
  }

  SteadyClock clock_;
  PollWaiter waiter_{clock_};
  FakeTarget target_;
  std::unique_ptr<Server> server_;
  uint32_t counter_ = 1000;
};

auto IsBadFrame() { return Fails(absl::StatusCode::kInvalidArgument, ErrorReason::kBadFrame); }

TEST_F(TcpHostileTest, GarbageIsToldSoAndClosed) {
  Start();
  HostilePeer peer = Connect();
  ASSERT_TRUE(peer.Send("GET / HTTP/1.1\r\nHost: node\r\nUser-Agent: curl\r\n\r\n"));
  const auto answer = peer.TakeAnswer();
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->header.request_id, 0u);
  EXPECT_THAT(answer->error, IsBadFrame());
  EXPECT_TRUE(peer.SeesClose());
  EXPECT_EQ(server_->counters().bad_frames_total, 1u);
  ExpectServes();
}

TEST_F(TcpHostileTest, GarbageWithNothingBehindItIsToldSoAsWell) {
  Start();
  HostilePeer peer = Connect();
  ASSERT_TRUE(peer.Send(std::string(64, 'x')));
  peer.StopSending();
  const auto answer = peer.TakeAnswer();
  ASSERT_TRUE(answer.has_value());
  EXPECT_THAT(answer->error, IsBadFrame());
  EXPECT_TRUE(peer.SeesClose());
}

TEST_F(TcpHostileTest, RandomAndMutatedFramesNeverHurt) {
  Start();
  Random random(7);
  const SealRecord record = RecordAt(0, 1000, 1);
  for (int i = 0; i < 300; ++i) {
    HostilePeer peer = random.OneIn(4) ? Connect() : Greeted();
    std::vector<std::byte> bytes(2 * kFrameBytesMax);
    size_t size = 0;
    switch (random.Below(4)) {
      case 0: size = EncodeSeal(9, record, bytes.data()); break;
      case 1:
        size = EncodeExtentRequest(FrameType::kWrite, 0, 9, {record.generation, record.extent},
                                   bytes.data()) +
               500;
        break;
      case 2:
        size = EncodeExtentRequest(FrameType::kRead, 0, 9, {record.generation, record.extent},
                                   bytes.data());
        break;
      default:
        size = 1 + random.Below(300);
        for (size_t at = 0; at < size; ++at) bytes[at] = std::byte(random.Next());
    }
    const size_t flips = random.Below(4);
    for (size_t f = 0; f < flips; ++f) {
      bytes[random.Below(size)] ^= std::byte{1} << random.Below(8);
    }
    peer.Send(bytes.data(), random.OneIn(3) ? random.Below(size) : size);
    if (random.OneIn(2)) {
      peer.StopSending();
      EXPECT_TRUE(peer.SeesClose());
    }
  }
  ExpectServes();
  EXPECT_TRUE(Eventually([&] { return server_->counters().connections_open == 0; }));
  EXPECT_EQ(target_.open_claims(), 0u);
}

TEST_F(TcpHostileTest, AnotherMajorVersionIsRefusedWithItsReason) {
  Start();
  for (const unsigned major : {0u, kWireMajor + 1, 0xffffu}) {
    HostilePeer peer = Connect();
    ASSERT_TRUE(peer.SendHello(kIncarnation, static_cast<uint16_t>(major)));
    const auto answer = peer.TakeAnswer();
    ASSERT_TRUE(answer.has_value());
    EXPECT_THAT(answer->error,
                Fails(absl::StatusCode::kFailedPrecondition, ErrorReason::kPeerVersion));
    EXPECT_TRUE(peer.SeesClose());
  }
  EXPECT_EQ(server_->counters().handshakes_refused_total, 3u);
}

TEST_F(TcpHostileTest, HelloComesFirstAndOnce) {
  Start();
  HostilePeer early = Connect();
  ASSERT_TRUE(SendExtent(early, FrameType::kRead, RecordAt(0, 10, 1)));
  ASSERT_OK_AND_ASSIGN(const auto first, [&]() -> absl::StatusOr<HostilePeer::Answer> {
    auto answer = early.TakeAnswer();
    if (!answer.has_value()) return absl::InternalError("closed");
    return *answer;
  }());
  EXPECT_THAT(first.error, IsBadFrame());
  HostilePeer twice = Greeted();
  ASSERT_TRUE(twice.SendHello(kIncarnation));
  const auto second = twice.TakeAnswer();
  ASSERT_TRUE(second.has_value());
  EXPECT_THAT(second->error, IsBadFrame());
}

TEST_F(TcpHostileTest, NobodyClaimsMappedMemoryOverTcp) {
  Start();
  HostilePeer peer = Greeted();
  ASSERT_TRUE(SendExtent(peer, FrameType::kClaim, RecordAt(0, 10, 1)));
  const auto answer = peer.TakeAnswer();
  ASSERT_TRUE(answer.has_value());
  EXPECT_THAT(answer->error, StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_EQ(target_.open_claims(), 0u);
}

TEST_F(TcpHostileTest, SealWithoutBytesIsRefused) {
  Start();
  HostilePeer peer = Greeted();
  const SealRecord record = RecordAt(0, 1000, 1);
  ASSERT_TRUE(peer.Send([&](std::byte* to) { return EncodeSeal(2, record, to); }));
  EXPECT_THAT(peer.TakeAnswer()->error,
              Fails(absl::StatusCode::kFailedPrecondition, ErrorReason::kStaleGeneration));
  EXPECT_EQ(target_.seal_count(), 0u);
}

// As a network does that TCP's own checksum has not caught.
TEST_F(TcpHostileTest, BytesThatWereAlteredOnTheWayAreNotSealed) {
  Start();
  HostilePeer peer = Greeted();
  // One that comes with its frame, and one that is received in steps; at both ends.
  for (const size_t size : {size_t{1000}, size_t{3'000'000}}) {
    SealRecord record = RecordAt(0, size, static_cast<uint32_t>(size));
    std::string payload(Padded(size), 'x');
    record.payload_checksum = Checksum(absl::string_view(payload).substr(0, size));
    const auto write = [&] {
      EXPECT_TRUE(SendExtent(peer, FrameType::kWrite, record, 2));
      EXPECT_TRUE(peer.Send(payload));
      EXPECT_EQ(peer.TakeAnswer()->header.type, FrameType::kOk) << "it is not quiet";
      EXPECT_TRUE(peer.Send([&](std::byte* to) { return EncodeSeal(3, record, to); }));
      return peer.TakeAnswer()->error;
    };
    for (const size_t at : {size_t{0}, size / 2, size - 1}) {
      const size_t sealed = target_.seal_count();
      payload[at] = 'y';
      EXPECT_THAT(write(), Fails(absl::StatusCode::kDataLoss, ErrorReason::kChecksumMismatch))
          << at << " of " << size;
      EXPECT_EQ(target_.open_claims(), 0u);
      payload[at] = 'x';
      EXPECT_EQ(target_.seal_count(), sealed);
    }
    // The same generation, as it was meant.
    EXPECT_THAT(write(), IsOk());
  }
  EXPECT_EQ(target_.seal_count(), 2u);
}

TEST_F(TcpHostileTest, PayloadWithoutAPlaceIsThrownAway) {
  Start();
  HostilePeer peer = Greeted();
  SealRecord outside = RecordAt(0, 100'000, 1);
  outside.extent.segment = SegmentId{77};
  ASSERT_TRUE(SendExtent(peer, FrameType::kWrite, outside));
  ASSERT_TRUE(peer.Send(std::string(Padded(100'000), 'x')));
  EXPECT_THAT(peer.TakeAnswer()->error, StatusIs(absl::StatusCode::kInvalidArgument));
  // The next request on the same connection is understood.
  ASSERT_TRUE(SendExtent(peer, FrameType::kRelease, outside, 3));
  const auto released = peer.TakeAnswer();
  ASSERT_TRUE(released.has_value());
  EXPECT_EQ(released->header.type, FrameType::kOk);
  EXPECT_EQ(released->header.request_id, 3u);
}

TEST_F(TcpHostileTest, UnsealedExtentsOfAConnectionAreBounded) {
  Start({.claims_max = 3});
  HostilePeer peer = Greeted();
  for (uint32_t i = 1; i <= 4; ++i) {
    ASSERT_TRUE(SendExtent(peer, FrameType::kWrite, RecordAt(i * 4096, 64, i), i));
    ASSERT_TRUE(peer.Send(std::string(64, 'x')));
    const auto answer = peer.TakeAnswer();
    ASSERT_TRUE(answer.has_value());
    if (i <= 3) {
      EXPECT_EQ(answer->header.type, FrameType::kOk);
    } else {
      EXPECT_THAT(answer->error,
                  Fails(absl::StatusCode::kResourceExhausted, ErrorReason::kLimitReached));
    }
  }
  peer.Close();
  EXPECT_TRUE(Eventually([&] { return target_.open_claims() == 0; }));
}

TEST_F(TcpHostileTest, SilentAndTricklingPeersAreClosedInTheHandshake) {
  Start({.handshake_timeout = absl::Milliseconds(50)});
  std::vector<HostilePeer> silent;
  for (int i = 0; i < 50; ++i) silent.push_back(Connect());
  HostilePeer trickling = Connect();
  // A byte now and then does not buy more time.
  std::array<std::byte, kFrameBytesMax> hello;
  EncodeHello({.incarnation = kIncarnation}, 1, hello.data());
  size_t sent = 0;
  EXPECT_TRUE(Eventually([&] {
    if (sent < 40 && send(trickling.fd(), &hello[sent], 1, MSG_NOSIGNAL | MSG_DONTWAIT) == 1) {
      ++sent;
    }
    return server_->counters().timeouts_total == 51;
  }));
  for (HostilePeer& peer : silent) EXPECT_TRUE(peer.SeesClose());
  EXPECT_TRUE(trickling.SeesClose());
  ExpectServes();
}

TEST_F(TcpHostileTest, StalledPayloadIsClosedAndItsClaimGivenUp) {
  Start({.stall_timeout = absl::Milliseconds(50)});
  HostilePeer peer = Greeted();
  ASSERT_TRUE(SendExtent(peer, FrameType::kWrite, RecordAt(0, 1 << 20, 1)));
  ASSERT_TRUE(peer.Send(std::string(1000, 'x')));
  EXPECT_TRUE(peer.SeesClose());
  EXPECT_EQ(target_.open_claims(), 0u);
  EXPECT_EQ(server_->counters().timeouts_total, 1u);
}

// A node that is stopped: the kernel accepts for it, and nothing comes back.
TEST_F(TcpHostileTest, StartingToConnectToASilentPeerWaitsForNothing) {
  const int listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const auto any = ParseNumericAddress("127.0.0.1:0");
  ASSERT_EQ(bind(listening, reinterpret_cast<const sockaddr*>(&any->storage), any->length), 0);
  ASSERT_EQ(listen(listening, 8), 0);
  const RawListener silent(listening, [](int fd) {
    char byte;
    while (recv(fd, &byte, 1, 0) > 0) {
    }
  });
  const auto transport = NewTcpTransport({}, clock_);
  const PeerAddress address{.name = "node",
                            .incarnation = kIncarnation,
                            .host_id = "",
                            .tcp_address = LocalAddress(listening).ToString(),
                            .shm_path = ""};
  std::vector<std::unique_ptr<Channel>> channels;
  for (int i = 0; i < 4; ++i) {
    ASSERT_OK_AND_ASSIGN(
        auto channel, transport->StartConnect(
                          address, {.deadline = clock_.Now() + absl::Seconds(20), .cancel = {}}));
    channels.push_back(std::move(channel));
  }
  for (const auto& channel : channels) {
    channel->Progress();
    EXPECT_EQ(channel->connected(), std::nullopt);
    std::vector<pollfd> waits;
    channel->AppendWaits(&waits);
    EXPECT_EQ(waits.size(), 1u) << "an answer is waited for";
  }
}

TEST_F(TcpHostileTest, IdleConnectionsAreClosedAndFoundUnhealthy) {
  Start({.idle_timeout = absl::Milliseconds(50)});
  const auto transport = NewTcpTransport({}, clock_);
  const PeerAddress address{.name = "node",
                            .incarnation = kIncarnation,
                            .host_id = "",
                            .tcp_address = server_->address(),
                            .shm_path = ""};
  ASSERT_OK_AND_ASSIGN(const auto channel, transport->Connect(address, {}));
  EXPECT_TRUE(Eventually([&] { return !channel->healthy(); }));
  EXPECT_EQ(server_->counters().timeouts_total, 1u);
}

TEST_F(TcpHostileTest, PeersOverTheLimitAreToldSo) {
  Start({.connections_max = 2});
  std::vector<HostilePeer> served;
  served.push_back(Greeted());
  served.push_back(Greeted());
  HostilePeer refused = Connect();
  refused.SendHello(kIncarnation);
  const auto answer = refused.TakeAnswer();
  ASSERT_TRUE(answer.has_value());
  EXPECT_THAT(answer->error,
              Fails(absl::StatusCode::kResourceExhausted, ErrorReason::kLimitReached));
  EXPECT_TRUE(refused.SeesClose());
  EXPECT_EQ(server_->counters().connections_refused_total, 1u);
  served.clear();
  refused.Close();
  EXPECT_TRUE(EventuallyCounts(&ServerCounters::connections_open, 0));
  ExpectServes();
}

// It asks for far more than it takes. The server stops reading from it, serves the others, and ends
// it when nothing has moved for too long.
TEST_F(TcpHostileTest, PeerThatNeverReadsCostsABound) {
  Start({.threads = 1, .stall_timeout = absl::Milliseconds(300)});
  ExpectServes();
  const SealRecord record = HonestRecord(300'000);
  HostilePeer greedy = Greeted();
  fcntl(greedy.fd(), F_SETFL, O_NONBLOCK);
  std::array<std::byte, kFrameBytesMax> request;
  const size_t size = EncodeExtentRequest(FrameType::kRead, 0, 2,
                                          {record.generation, record.extent}, request.data());
  ASSERT_TRUE(
      Eventually([&] { return send(greedy.fd(), request.data(), size, MSG_NOSIGNAL) < 0; }));
  const uint64_t taken = server_->counters().reads_total;
  EXPECT_LT(taken, 200u) << "it was to stop reading";
  ExpectServes();
  EXPECT_TRUE(EventuallyCounts(&ServerCounters::timeouts_total, 1));
}

TEST_F(TcpHostileTest, GreedyPeerLeavesTurnsToOthers) {
  Start({.threads = 1});
  // Keeps its pipeline full as long as the test runs.
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> greedy_ops{0};
  std::thread greedy([&] {
    HostilePeer peer = Greeted();
    const SealRecord record = RecordAt(0, 1 << 20, 1);
    const std::string payload(1 << 20, 'x');
    for (uint32_t i = 1; !stop.load(); ++i) {
      SealRecord next = record;
      next.generation = Generation::Of(Term{UINT32_MAX}, i);
      SendExtent(peer, FrameType::kWrite, next, i);
      peer.Send(payload);
      if (i > 4) peer.TakeAnswer();
      greedy_ops.fetch_add(1);
    }
  });
  ASSERT_TRUE(Eventually([&] { return greedy_ops.load() > 10; }));
  for (int i = 0; i < 5; ++i) ExpectServes();
  stop.store(true);
  greedy.join();
}

TEST_F(TcpHostileTest, CountersTellWhatWasDone) {
  Start();
  ExpectServes();
  ExpectServes();
  EXPECT_TRUE(EventuallyCounts(&ServerCounters::connections_open, 0));
  const ServerCounters counters = server_->counters();
  // Two puts and gets of 300,000 bytes each, and a few more for the frames.
  EXPECT_EQ(counters.connections_total, 2u);
  EXPECT_EQ(counters.writes_total, 2u);
  EXPECT_EQ(counters.seals_total, 2u);
  EXPECT_EQ(counters.reads_total, 2u);
  EXPECT_GE(counters.received_bytes_total, 600'000u);
  EXPECT_LT(counters.received_bytes_total, 604'000u);
  EXPECT_GE(counters.sent_bytes_total, 600'000u);
  EXPECT_LT(counters.sent_bytes_total, 604'000u);
  EXPECT_EQ(counters.bad_frames_total + counters.errors_total + counters.stale_total, 0u);
}

TEST_F(TcpHostileTest, BadOptionsFailAtStart) {
  const auto start = [&](const TcpServerOptions& options) {
    return NewTcpServer(target_, options, clock_, Logger::Null())->Start();
  };
  EXPECT_THAT(start({.listen_address = "nonsense"}), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(start({.limits = {.threads = 0}}), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(start({.congestion_control = "no-such-thing"}),
              StatusIs(absl::StatusCode::kInvalidArgument));
  Start();
  EXPECT_THAT(start({.listen_address = server_->address()}),
              Fails(absl::StatusCode::kUnavailable, ErrorReason::kPeerUnreachable));
}

}  // namespace
}  // namespace moonpool::transport
