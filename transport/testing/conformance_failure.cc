// Every call ends, with an error that says why.
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <deque>
#include <thread>

#include "common/cancel.h"
#include "transport/testing/conformance_scene.h"

namespace moonpool::transport {
namespace {

// Reads whatever comes until the peer closes.
void ReadToEnd(int fd) {
  std::array<char, 4096> buffer;
  while (recv(fd, buffer.data(), buffer.size(), 0) > 0) {
  }
}

// A server that shakes hands like a real one, then runs `script`.
std::function<void(int)> AfterHandshake(ConformanceScene& scene, std::function<void(int)> script) {
  return [&scene, script](int fd) {
    if (scene.backend().AnswerHello(fd)) {
      script(fd);
    } else {
      ReadToEnd(fd);
    }
  };
}

// A peer whose connections are answered by `script`.
struct RawPeer {
  RawPeer(ConformanceScene& scene, std::function<void(int)> script)
      : listener(scene.backend().ListenRaw(std::move(script), &address)),
        peer(scene.backend().PeerAt(address, scene.target().incarnation())) {}
  std::string address;
  std::shared_ptr<void> listener;
  PeerAddress peer;
};

void AnotherLifeOfTheNodeIsRefused(ConformanceScene& scene) {
  const PeerAddress other = scene.backend().PeerAt(scene.server().address(), Incarnation{0x9999});
  EXPECT_THAT(scene.transport().Connect(other, scene.Within(scene.kPatience)),
              Fails(absl::StatusCode::kFailedPrecondition, ErrorReason::kStaleGeneration));
}

void DeadAddressIsUnreachableSoon(ConformanceScene& scene) {
  const absl::Time start = scene.waiter().clock().Now();
  EXPECT_THAT(scene.transport().Connect(scene.backend().DeadPeer(), scene.Within(scene.kPatience)),
              Fails(absl::StatusCode::kUnavailable, ErrorReason::kPeerUnreachable));
  EXPECT_LT(scene.waiter().clock().Now() - start, absl::Seconds(5));
}

// What becomes of a handshake that only Progress drives.
absl::Status Driven(ConformanceScene& scene, const PeerAddress& peer) {
  const auto channel = scene.transport().StartConnect(peer, scene.Within(scene.kPatience));
  RETURN_IF_ERROR(channel.status());
  const CallContext context = scene.Within(scene.kPatience);
  Channel* const one[] = {channel->get()};
  while (!(*channel)->connected().has_value()) {
    RETURN_IF_ERROR(context.Check(scene.waiter().clock()));
    EXPECT_EQ((*channel)->outstanding(), 0u);
    if (!(*channel)->Progress()) scene.waiter().Wait(one, context);
  }
  RETURN_IF_ERROR(*(*channel)->connected());
  return scene.Write(**channel, RecordAt(0, 1000, 1), PatternBytes(1000, 1));
}

void StartedConnectsEndAsOthersDo(ConformanceScene& scene) {
  EXPECT_THAT(Driven(scene, scene.peer()), IsOk());
  EXPECT_THAT(Driven(scene, scene.backend().DeadPeer()),
              Fails(absl::StatusCode::kUnavailable, ErrorReason::kPeerUnreachable));
  EXPECT_THAT(Driven(scene, scene.backend().PeerAt(scene.server().address(), Incarnation{0x9999})),
              Fails(absl::StatusCode::kFailedPrecondition, ErrorReason::kStaleGeneration));
}

void SilentHandshakeEndsAtTheDeadline(ConformanceScene& scene) {
  if (!scene.traits().has_sockets) GTEST_SKIP() << "no sockets";
  RawPeer silent(scene, ReadToEnd);
  EXPECT_THAT(scene.transport().Connect(silent.peer, scene.Within(absl::Milliseconds(50))),
              Fails(absl::StatusCode::kDeadlineExceeded, ErrorReason::kDeadline));
  // The backend's own timeout is shorter than a patient caller's.
  EXPECT_THAT(scene.transport().Connect(silent.peer, scene.Within(scene.kPatience)),
              Fails(absl::StatusCode::kUnavailable, ErrorReason::kPeerUnreachable));
}

void ConnectingIsCancelledFromAnotherThread(ConformanceScene& scene) {
  if (!scene.traits().has_sockets) GTEST_SKIP() << "no sockets";
  CancelSource source;
  RawPeer silent(scene, [&source](int fd) {
    source.Cancel();
    ReadToEnd(fd);
  });
  CallContext context = scene.Within(scene.kPatience);
  context.cancel = source.token();
  EXPECT_THAT(scene.transport().Connect(silent.peer, context),
              Fails(absl::StatusCode::kCancelled, ErrorReason::kCancelledByCaller));
}

void GarbageInTheHandshakeIsABadFrame(ConformanceScene& scene) {
  if (!scene.traits().has_sockets) GTEST_SKIP() << "no sockets";
  RawPeer garbage(scene, [](int fd) {
    const std::string http = "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n";
    EXPECT_GT(send(fd, http.data(), http.size(), MSG_NOSIGNAL), 0);
    ReadToEnd(fd);
  });
  EXPECT_THAT(scene.transport().Connect(garbage.peer, scene.Within(scene.kPatience)),
              Fails(absl::StatusCode::kUnavailable, ErrorReason::kBadFrame));
}

void NewerMajorVersionIsRefused(ConformanceScene& scene) {
  if (!scene.traits().has_sockets) GTEST_SKIP() << "no sockets";
  RawPeer newer(scene, [](int fd) {
    HelloAnswer answer = PlainHelloAnswer();
    ++answer.wire_major;
    EXPECT_TRUE(SendFrame(fd, [&](std::byte* to) { return EncodeHelloOk(1, answer, to); }));
    ReadToEnd(fd);
  });
  EXPECT_THAT(scene.transport().Connect(newer.peer, scene.Within(scene.kPatience)),
              Fails(absl::StatusCode::kFailedPrecondition, ErrorReason::kPeerVersion));
}

// Past the handshake: an op and what becomes of it.
struct OneWrite {
  explicit OneWrite(size_t size) : payload(PatternBytes(size, 1)) {
    op = WriteOf(RecordAt(0, size, 1), payload);
  }
  std::vector<std::byte> payload;
  WriteOp op;
};

std::unique_ptr<Channel> ConnectTo(ConformanceScene& scene, const RawPeer& raw) {
  auto channel = scene.transport().Connect(raw.peer, scene.Within(scene.kPatience));
  EXPECT_THAT(channel, IsOk());
  return channel.ok() ? *std::move(channel) : nullptr;
}

void SilentServerEndsAtTheDeadline(ConformanceScene& scene) {
  if (!scene.traits().has_sockets) GTEST_SKIP() << "no sockets";
  RawPeer silent(scene, AfterHandshake(scene, ReadToEnd));
  const auto channel = ConnectTo(scene, silent);
  ASSERT_NE(channel, nullptr);
  OneWrite write(1000);
  ASSERT_THAT(channel->Submit(&write.op), IsOk());
  EXPECT_THAT(scene.Complete(*channel, scene.Within(absl::Milliseconds(50))),
              Fails(absl::StatusCode::kDeadlineExceeded, ErrorReason::kDeadline));
  EXPECT_TRUE(write.op.done);
  EXPECT_THAT(write.op.status, StatusIs(absl::StatusCode::kDeadlineExceeded));
  EXPECT_FALSE(channel->healthy());
}

void WaitingIsCancelledFromAnotherThread(ConformanceScene& scene) {
  if (!scene.traits().has_sockets) GTEST_SKIP() << "no sockets";
  CancelSource source;
  RawPeer silent(scene, AfterHandshake(scene, [&source](int fd) {
                   char byte;
                   EXPECT_EQ(recv(fd, &byte, 1, 0), 1);  // the request is under way
                   source.Cancel();
                   ReadToEnd(fd);
                 }));
  const auto channel = ConnectTo(scene, silent);
  ASSERT_NE(channel, nullptr);
  OneWrite write(1000);
  ASSERT_THAT(channel->Submit(&write.op), IsOk());
  CallContext context = scene.Within(scene.kPatience);
  context.cancel = source.token();
  EXPECT_THAT(scene.Complete(*channel, context),
              Fails(absl::StatusCode::kCancelled, ErrorReason::kCancelledByCaller));
  EXPECT_THAT(write.op.status, StatusIs(absl::StatusCode::kCancelled));
}

void WrongAnswersAreBadFrames(ConformanceScene& scene) {
  if (!scene.traits().has_sockets) GTEST_SKIP() << "no sockets";
  const std::vector<std::function<size_t(std::byte*)>> answers = {
      [](std::byte* to) { return EncodeOk(FrameType::kSeal, 777, to); },  // of nobody
      [](std::byte* to) { return EncodeOk(FrameType::kRead, 2, to); },    // of another kind
      [](std::byte* to) { return EncodeReadOk(2, 1 << 20, to); },         // bytes unasked for
      [](std::byte* to) { return EncodeHelloOk(2, HelloAnswer{}, to); },  // out of place
      [](std::byte* to) { return (std::fill_n(to, 200, std::byte{0xff}), size_t{200}); }};
  for (const auto& answer : answers) {
    RawPeer liar(scene, AfterHandshake(scene, [&answer](int fd) {
                   char byte;
                   EXPECT_EQ(recv(fd, &byte, 1, 0), 1);
                   EXPECT_TRUE(SendFrame(fd, answer));
                   ReadToEnd(fd);
                 }));
    const auto channel = ConnectTo(scene, liar);
    ASSERT_NE(channel, nullptr);
    OneWrite write(100'000);
    ASSERT_THAT(channel->Submit(&write.op), IsOk());
    EXPECT_THAT(scene.Complete(*channel), IsOk());
    EXPECT_THAT(write.op.status, Fails(absl::StatusCode::kUnavailable, ErrorReason::kBadFrame));
    EXPECT_THAT(channel->Submit(&write.op), StatusIs(absl::StatusCode::kUnavailable));
    EXPECT_FALSE(channel->healthy());
  }
}

// A read without a checksum is done when the node has said, behind the payload, whose it was.
void WrongAnswersToAnUnverifiedReadAreBadFrames(ConformanceScene& scene) {
  if (!scene.traits().has_sockets) GTEST_SKIP() << "no sockets";
  std::vector<std::byte> into(100);
  const Extent extent = RecordAt(0, into.size(), 1).extent;
  const auto payload = [&](std::byte* to) {
    const size_t frame = EncodeReadOk(2, extent.length, to);
    return frame + static_cast<size_t>(std::fill_n(to + frame, Padded(extent.length), std::byte{}) -
                                       (to + frame));
  };
  const std::vector<std::function<size_t(std::byte*)>> answers = {
      [](std::byte* to) { return EncodeOk(FrameType::kRead, 2, to); },  // no payload
      [&](std::byte* to) {                                              // two of them
        const size_t first = payload(to);
        return first + payload(to + first);
      },
      [&](std::byte* to) {  // confirmed as another request
        const size_t first = payload(to);
        return first + EncodeOk(FrameType::kSeal, 2, to + first);
      }};
  for (const auto& answer : answers) {
    RawPeer liar(scene, AfterHandshake(scene, [&answer](int fd) {
                   char byte;
                   EXPECT_EQ(recv(fd, &byte, 1, 0), 1);
                   EXPECT_TRUE(SendFrame(fd, answer));
                   ReadToEnd(fd);
                 }));
    const auto channel = ConnectTo(scene, liar);
    ASSERT_NE(channel, nullptr);
    ReadOp read = ReadOf(Generation::Of(Term{1}, 1), extent, absl::MakeSpan(into));
    read.verify = false;
    ASSERT_THAT(channel->Submit(&read), IsOk());
    EXPECT_THAT(scene.Complete(*channel), IsOk());
    EXPECT_THAT(read.status, Fails(absl::StatusCode::kUnavailable, ErrorReason::kBadFrame));
  }
}

void AbandonedBuffersAreLeftAlone(ConformanceScene& scene) {
  const auto channel = scene.Connect();
  ASSERT_NE(channel, nullptr);
  constexpr size_t kLarge = 8 << 20;
  const SealRecord record = RecordAt(0, kLarge, 1);
  ASSERT_THAT(scene.Write(*channel, record, PatternBytes(kLarge, 1)), IsOk());
  constexpr size_t kReads = 4;
  std::vector<std::byte> into(kReads * kLarge);
  std::deque<ReadOp> reads;
  for (size_t i = 0; i < kReads; ++i) {
    reads.push_back(
        ReadOf(record.generation, record.extent, absl::MakeSpan(into).subspan(i * kLarge, kLarge)));
    ASSERT_THAT(channel->Submit(&reads.back()), IsOk());
  }
  channel->Progress();
  channel->Abandon(absl::CancelledError("enough"));
  EXPECT_EQ(channel->outstanding(), 0u);
  EXPECT_FALSE(channel->healthy());
  for (const ReadOp& read : reads) EXPECT_TRUE(read.done);
  EXPECT_THAT(reads.back().status, StatusIs(absl::StatusCode::kCancelled));
  std::fill(into.begin(), into.end(), std::byte{0x55});
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(channel->Progress());
  EXPECT_TRUE(std::all_of(into.begin(), into.end(),
                          [](std::byte byte) { return byte == std::byte{0x55}; }));
  ReadOp late = ReadOf(record.generation, record.extent, absl::MakeSpan(into).subspan(0, kLarge));
  EXPECT_FALSE(channel->Submit(&late).ok());
  EXPECT_FALSE(late.done);
}

void TooMuchOutstandingIsSaidAtOnce(ConformanceScene& scene) {
  const auto transport = scene.backend().MakeTransport({.outstanding_ops_max = 4});
  ASSERT_OK_AND_ASSIGN(const auto channel,
                       transport->Connect(scene.peer(), scene.Within(scene.kPatience)));
  const std::vector<std::byte> payload = PatternBytes(1000, 1);
  std::deque<WriteOp> ops;
  size_t refused = 0;
  for (uint32_t i = 0; i < 100; ++i) {
    ops.push_back(WriteOf(RecordAt(i * 4096, payload.size(), i + 1), payload));
    absl::Status submitted = channel->Submit(&ops.back());
    while (absl::IsResourceExhausted(submitted)) {
      EXPECT_EQ(ReasonOf(submitted), ErrorReason::kLimitReached);
      EXPECT_FALSE(ops.back().done);
      ++refused;
      ASSERT_THAT(scene.Complete(*channel), IsOk());
      submitted = channel->Submit(&ops.back());
    }
    ASSERT_THAT(submitted, IsOk());
  }
  ASSERT_THAT(scene.Complete(*channel), IsOk());
  EXPECT_GT(refused, 0u);
  for (const WriteOp& op : ops) EXPECT_THAT(op.status, IsOk());
}

void ImpossibleOpsAreRefusedBeforeTheyTravel(ConformanceScene& scene) {
  const auto channel = scene.Connect();
  ASSERT_NE(channel, nullptr);
  std::vector<std::byte> payload(100);
  WriteOp short_buffer = WriteOf(RecordAt(0, 101, 1), payload);
  EXPECT_THAT(channel->Submit(&short_buffer), StatusIs(absl::StatusCode::kInvalidArgument));
  WriteOp no_key = WriteOf(RecordAt(0, 100, 1), payload);
  no_key.record.key.clear();
  EXPECT_THAT(channel->Submit(&no_key), StatusIs(absl::StatusCode::kInvalidArgument));
  ReadOp no_generation = ReadOf(Generation{}, RecordAt(0, 100, 1).extent, absl::MakeSpan(payload));
  EXPECT_THAT(channel->Submit(&no_generation), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_EQ(channel->outstanding(), 0u);
}

void StoppedServerMakesOpsUnavailable(ConformanceScene& scene) {
  const auto channel = scene.Connect();
  ASSERT_NE(channel, nullptr);
  const std::vector<std::byte> payload = PatternBytes(1 << 20, 1);
  std::deque<WriteOp> ops;
  for (uint32_t i = 0; i < 32; ++i) {
    ops.push_back(
        WriteOf(RecordAt(uint64_t{i} * (1 << 20) + i * 4096, payload.size(), i + 1), payload));
    ASSERT_THAT(channel->Submit(&ops.back()), IsOk());
  }
  channel->Progress();
  std::thread stopper([&scene] { scene.server().Stop(); });
  if (!scene.traits().is_threaded) stopper.join();
  const absl::Status completed = scene.Complete(*channel);
  if (stopper.joinable()) stopper.join();
  EXPECT_THAT(completed, IsOk());
  for (const WriteOp& op : ops) {
    ASSERT_TRUE(op.done);
    EXPECT_TRUE(op.status.ok() || absl::IsUnavailable(op.status)) << op.status;
  }
  EXPECT_TRUE(Eventually([&] {
    channel->Progress();
    return !channel->healthy();
  }));
  scene.server().Stop();  // once more
  EXPECT_EQ(scene.target().open_claims(), 0u);
  EXPECT_EQ(scene.target().viewer_count(), 0u);
  EXPECT_FALSE(scene.transport().Connect(scene.peer(), scene.Within(absl::Seconds(2))).ok());
}

}  // namespace

std::vector<ConformanceCase> FailureCases() {
  return {
      {"AnotherLifeOfTheNodeIsRefused", AnotherLifeOfTheNodeIsRefused},
      {"DeadAddressIsUnreachableSoon", DeadAddressIsUnreachableSoon},
      {"StartedConnectsEndAsOthersDo", StartedConnectsEndAsOthersDo},
      {"SilentHandshakeEndsAtTheDeadline", SilentHandshakeEndsAtTheDeadline},
      {"ConnectingIsCancelledFromAnotherThread", ConnectingIsCancelledFromAnotherThread},
      {"GarbageInTheHandshakeIsABadFrame", GarbageInTheHandshakeIsABadFrame},
      {"NewerMajorVersionIsRefused", NewerMajorVersionIsRefused},
      {"SilentServerEndsAtTheDeadline", SilentServerEndsAtTheDeadline},
      {"WaitingIsCancelledFromAnotherThread", WaitingIsCancelledFromAnotherThread},
      {"WrongAnswersAreBadFrames", WrongAnswersAreBadFrames},
      {"WrongAnswersToAnUnverifiedReadAreBadFrames", WrongAnswersToAnUnverifiedReadAreBadFrames},
      {"AbandonedBuffersAreLeftAlone", AbandonedBuffersAreLeftAlone},
      {"TooMuchOutstandingIsSaidAtOnce", TooMuchOutstandingIsSaidAtOnce},
      {"ImpossibleOpsAreRefusedBeforeTheyTravel", ImpossibleOpsAreRefusedBeforeTheyTravel},
      {"StoppedServerMakesOpsUnavailable", StoppedServerMakesOpsUnavailable}};
}

}  // namespace moonpool::transport
