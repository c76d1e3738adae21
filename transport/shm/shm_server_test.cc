// What only the same-host backend does: rights, sockets on disk, and what its channels share.
#include "transport/shm/shm_server.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <memory>
#include <string>
#include <thread>

#include "common/log.h"
#include "common/testing/status_matchers.h"
#include "common/testing/temp_dir.h"
#include "transport/shm/handshake.h"
#include "transport/shm/mapping.h"
#include "transport/shm/shm_transport.h"
#include "transport/stream/connect.h"
#include "transport/testing/conformance_scene.h"
#include "transport/testing/fake_target.h"
#include "transport/testing/hostile_peer.h"

namespace moonpool::transport {
namespace {

class ShmServerTest : public testing::Test {
 protected:
  std::unique_ptr<Server> NewServer(FakeTarget& target, bool mapped_writers = true,
                                    uint32_t pin_slots = 64) {
    ShmServerOptions options;
    options.socket_path = path_;
    options.mapped_writers = mapped_writers;
    options.pin_slots = pin_slots;
    return NewShmServer(target, {{SegmentId{0}, target.segment_fd(0), target.segment_bytes(0)}},
                        options, clock_, Logger::Null());
  }
  PeerAddress Peer(Incarnation incarnation) const {
    return {.name = "node",
            .incarnation = incarnation,
            .host_id = "",
            .tcp_address = "",
            .shm_path = path_};
  }
  CallContext Soon() const { return {.deadline = clock_.Now() + absl::Seconds(10), .cancel = {}}; }
  absl::StatusOr<ReceivedMemory> Handshake(const FakeTarget& target, uint32_t wants) {
    ASSIGN_OR_RETURN(const SocketAddress address, UnixAddress(path_));
    ASSIGN_OR_RETURN(socket_, NewStreamSocket(AF_UNIX));
    RETURN_IF_ERROR(StartConnect(socket_.get(), address));
    const CallContext context = Soon();
    return ReceiveMemory(socket_.get(), HelloFor(target.incarnation(), 0, wants),
                         ConnectDeadline(context, absl::Seconds(5), clock_), clock_);
  }

  const TempDir dir_;
  const std::string path_ = dir_.path() + "/node.sock";
  SteadyClock clock_;
  PollWaiter waiter_{clock_};
  UniqueFd socket_;
};

TEST_F(ShmServerTest, SocketIsForItsUserAndGoneAfterStop) {
  FakeTarget target;
  const auto server = NewServer(target);
  ASSERT_THAT(server->Start(), IsOk());
  struct stat file {};
  ASSERT_EQ(stat(path_.c_str(), &file), 0);
  EXPECT_EQ(file.st_mode & 0777, 0600u);
  server->Stop();
  EXPECT_NE(stat(path_.c_str(), &file), 0);
}

TEST_F(ShmServerTest, StaleSocketIsReplacedLiveOneIsNot) {
  const UniqueFd dead(socket(AF_UNIX, SOCK_STREAM, 0));
  const SocketAddress address = *UnixAddress(path_);
  ASSERT_EQ(bind(dead.get(), reinterpret_cast<const sockaddr*>(&address.storage), address.length),
            0);
  FakeTarget target;
  const auto server = NewServer(target);
  ASSERT_THAT(server->Start(), IsOk());
  const auto second = NewServer(target);
  EXPECT_THAT(second->Start(), StatusIs(absl::StatusCode::kUnavailable));
  // And its failure took nothing away from the first.
  const auto transport = NewShmTransport({}, clock_);
  EXPECT_THAT(transport->Connect(Peer(target.incarnation()), Soon()), IsOk());
  server->Stop();
}

TEST_F(ShmServerTest, AFullBacklogIsWaitedFor) {
  ASSERT_OK_AND_ASSIGN(const SocketAddress address, UnixAddress(path_));
  ASSERT_OK_AND_ASSIGN(const UniqueFd listener, NewStreamSocket(AF_UNIX));
  ASSERT_EQ(
      bind(listener.get(), reinterpret_cast<const sockaddr*>(&address.storage), address.length), 0);
  ASSERT_EQ(listen(listener.get(), 0), 0);
  const CallContext context = Soon();
  const ConnectDeadline deadline(context, absl::Seconds(10), clock_);
  ASSERT_OK_AND_ASSIGN(const UniqueFd first, NewStreamSocket(AF_UNIX));
  ASSERT_THAT(ConnectUnix(first.get(), address, deadline), IsOk());
  ASSERT_OK_AND_ASSIGN(const UniqueFd second, NewStreamSocket(AF_UNIX));
  const ConnectDeadline at_once(context, absl::ZeroDuration(), clock_);
  EXPECT_THAT(ConnectUnix(second.get(), address, at_once),
              StatusIs(absl::StatusCode::kUnavailable));
  std::thread accepter([&] { close(accept(listener.get(), nullptr, nullptr)); });
  EXPECT_THAT(ConnectUnix(second.get(), address, deadline), IsOk());
  accepter.join();
}

TEST_F(ShmServerTest, AFileInThePlaceOfTheSocketIsLeftAlone) {
  std::ofstream(path_) << "precious";
  FakeTarget target;
  EXPECT_THAT(NewServer(target)->Start(),
              Fails(absl::StatusCode::kFailedPrecondition, ErrorReason::kBadArgument));
  std::string content;
  std::ifstream(path_) >> content;
  EXPECT_EQ(content, "precious");
}

TEST_F(ShmServerTest, ReaderCannotWriteIntoThePool) {
  FakeTarget target;
  const auto server = NewServer(target);
  ASSERT_THAT(server->Start(), IsOk());
  ASSERT_OK_AND_ASSIGN(const ReceivedMemory memory, Handshake(target, kHelloMapping));
  EXPECT_TRUE(memory.writable.empty());
  ASSERT_EQ(memory.read_only.size(), 1u);
  const int fd = memory.read_only[0].get();
  EXPECT_EQ(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
  EXPECT_NE(ftruncate(fd, 0), 0);
  // Nor can another user open it again for writing.
  struct stat file {};
  ASSERT_EQ(fstat(fd, &file), 0);
  EXPECT_EQ(file.st_mode & 0777, 0600u);
  server->Stop();
}

TEST_F(ShmServerTest, ANamedFileIsGivenAwayWithTheSameRights) {
  const TempDir pool{kTmpfs};
  FakeTarget target(Incarnation{0x1234}, {1 << 20}, pool.path());
  ASSERT_EQ(fchmod(target.segment_fd(0), 0644), 0);
  const auto server = NewServer(target);
  ASSERT_THAT(server->Start(), IsOk());
  struct stat file {};
  ASSERT_EQ(fstat(target.segment_fd(0), &file), 0);
  EXPECT_EQ(file.st_mode & 0777, 0600u);
  ASSERT_OK_AND_ASSIGN(const ReceivedMemory memory,
                       Handshake(target, kHelloMapping | kHelloMappedWriter));
  const int fd = memory.read_only.at(0).get();
  EXPECT_EQ(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
  EXPECT_NE(ftruncate(fd, 0), 0);
  EXPECT_THAT(Mapping::Map(fd, 1 << 20, /*writable=*/false, {.giver = geteuid()}), IsOk());
  EXPECT_THAT(
      Mapping::Map(memory.writable.at(0).get(), 1 << 20, /*writable=*/true, {.giver = geteuid()}),
      IsOk());
  server->Stop();
}

TEST_F(ShmServerTest, WritableMemoryIsGivenOnlyWhereTheNodeAllows) {
  FakeTarget target;
  for (const bool allowed : {true, false}) {
    const auto server = NewServer(target, allowed);
    ASSERT_THAT(server->Start(), IsOk());
    ASSERT_OK_AND_ASSIGN(const ReceivedMemory memory,
                         Handshake(target, kHelloMapping | kHelloMappedWriter));
    EXPECT_EQ(memory.writable.size(), allowed ? 1u : 0u);
    // A client that asks for it works either way.
    const auto transport = NewShmTransport({}, clock_);
    ASSERT_OK_AND_ASSIGN(const auto channel,
                         transport->Connect(Peer(target.incarnation()), Soon()));
    const std::vector<std::byte> payload = PatternBytes(100'000, 1);
    WriteOp op = WriteOf(RecordAt(0, payload.size(), allowed ? 1 : 2), payload);
    ASSERT_THAT(channel->Submit(&op), IsOk());
    Channel* const one[] = {channel.get()};
    ASSERT_THAT(CompleteAll(one, Soon(), waiter_), IsOk());
    EXPECT_THAT(op.status, IsOk());
    EXPECT_EQ(server->counters().claims_total, allowed ? 1u : 0u);
    EXPECT_EQ(server->counters().writes_total, allowed ? 0u : 1u);
    server->Stop();
  }
}

TEST_F(ShmServerTest, ChannelsOfAProcessShareTheirPins) {
  FakeTarget target;
  const auto server = NewServer(target, true, /*pin_slots=*/4);
  ASSERT_THAT(server->Start(), IsOk());
  const auto transport = NewShmTransport({}, clock_);
  std::vector<std::unique_ptr<Channel>> channels;
  for (int i = 0; i < 5; ++i) {
    ASSERT_OK_AND_ASSIGN(auto channel, transport->Connect(Peer(target.incarnation()), Soon()));
    channels.push_back(std::move(channel));
  }
  EXPECT_EQ(target.viewer_count(), 1u);
  EXPECT_EQ(server->counters().connections_open, 6u);

  const std::vector<std::byte> payload = PatternBytes(1000, 1);
  WriteOp op = WriteOf(RecordAt(0, payload.size(), 1), payload);
  ASSERT_THAT(channels[0]->Submit(&op), IsOk());
  Channel* const one[] = {channels[0].get()};
  ASSERT_THAT(CompleteAll(one, Soon(), waiter_), IsOk());
  std::vector<std::unique_ptr<PinnedPart>> views;
  for (int i = 0; i < 4; ++i) {
    ASSERT_OK_AND_ASSIGN(auto view, channels[static_cast<size_t>(i)]->views()->OpenView(
                                        op.record.generation, op.record.extent));
    views.push_back(std::move(view));
  }
  EXPECT_THAT(channels[4]->views()->OpenView(op.record.generation, op.record.extent),
              Fails(absl::StatusCode::kResourceExhausted, ErrorReason::kLimitReached));
  views.pop_back();
  EXPECT_THAT(channels[4]->views()->OpenView(op.record.generation, op.record.extent), IsOk());
  server->Stop();
}

TEST_F(ShmServerTest, NextLifeOfTheNodeIsAnotherPeer) {
  const auto transport = NewShmTransport({}, clock_);
  std::unique_ptr<Channel> old_channel;
  std::unique_ptr<PinnedPart> old_view;
  const std::vector<std::byte> payload = PatternBytes(1000, 1);
  const SealRecord record = RecordAt(0, payload.size(), 1);
  FakeTarget first(Incarnation{1});
  FakeTarget second(Incarnation{2});
  {
    const auto server = NewServer(first);
    ASSERT_THAT(server->Start(), IsOk());
    ASSERT_OK_AND_ASSIGN(old_channel, transport->Connect(Peer(Incarnation{1}), Soon()));
    WriteOp op = WriteOf(record, payload);
    ASSERT_THAT(old_channel->Submit(&op), IsOk());
    Channel* const one[] = {old_channel.get()};
    ASSERT_THAT(CompleteAll(one, Soon(), waiter_), IsOk());
    ASSERT_OK_AND_ASSIGN(old_view,
                         old_channel->views()->OpenView(record.generation, record.extent));
    server->Stop();
  }
  const auto server = NewServer(second);
  ASSERT_THAT(server->Start(), IsOk());
  EXPECT_THAT(transport->Connect(Peer(Incarnation{1}), Soon()),
              Fails(absl::StatusCode::kFailedPrecondition, ErrorReason::kStaleGeneration));
  ASSERT_OK_AND_ASSIGN(const auto channel, transport->Connect(Peer(Incarnation{2}), Soon()));
  EXPECT_TRUE(channel->healthy());
  EXPECT_FALSE(old_channel->healthy());
  EXPECT_FALSE(old_view->still_pinned());
  EXPECT_THAT(old_channel->views()->OpenView(record.generation, record.extent),
              Fails(absl::StatusCode::kUnavailable, ErrorReason::kPeerUnreachable));
  EXPECT_EQ(old_view->payload()[999], payload[999]);
  server->Stop();
}

// Its claim would go with the connection, and nothing keeps a slow writer from writing after that.
// The caller looks at its deadline after each step, and a write that it gives up stops there.
TEST_F(ShmServerTest, ALargeMappedWriteIsCopiedInSteps) {
  FakeTarget target;
  const auto server = NewServer(target);
  ASSERT_THAT(server->Start(), IsOk());
  const auto transport = NewShmTransport({}, clock_);
  auto channel = transport->Connect(Peer(target.incarnation()), Soon());
  ASSERT_THAT(channel, IsOk());
  constexpr size_t kLarge = 32 << 20;
  constexpr size_t kStepMax = 8 << 20;
  const std::vector<std::byte> payload(kLarge, std::byte{7});
  WriteOp op = WriteOf(RecordAt(0, kLarge, 1), payload);
  const auto written = [&] {
    const std::vector<std::byte> there = target.PayloadOf(op.record.extent);
    return static_cast<size_t>(std::count(there.begin(), there.end(), std::byte{7}));
  };
  ASSERT_THAT((*channel)->Submit(&op), IsOk());
  size_t before = 0;
  ASSERT_TRUE(Eventually([&] {
    (*channel)->Progress();
    return target.open_claims() > 0 && (before = written()) > 0;
  }));
  EXPECT_LE(before, kStepMax);
  (*channel)->Progress();
  EXPECT_GT(written(), before);
  EXPECT_LE(written(), before + kStepMax);
  EXPECT_FALSE(op.done);

  before = written();
  (*channel)->Abandon(absl::CancelledError("changed my mind"));
  EXPECT_TRUE(op.done);
  EXPECT_TRUE(Eventually([&] { return target.open_claims() == 0; }));
  EXPECT_EQ(written(), before);
  server->Stop();
}

TEST_F(ShmServerTest, MappedWriterIsNeverClosedForBeingSlow) {
  FakeTarget target;
  ShmServerOptions options;
  options.socket_path = path_;
  options.limits.stall_timeout = absl::Milliseconds(50);
  const auto server = NewShmServer(target, {}, options, clock_, Logger::Null());
  ASSERT_THAT(server->Start(), IsOk());
  const auto greeted = [&] {
    const SocketAddress address = *UnixAddress(path_);
    HostilePeer peer(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(
        connect(peer.fd(), reinterpret_cast<const sockaddr*>(&address.storage), address.length), 0);
    EXPECT_TRUE(peer.Send([&](std::byte* to) {
      return EncodeHello(HelloFor(target.incarnation(), 0, kHelloMappedWriter), 1, to);
    }));
    EXPECT_TRUE(peer.TakeAnswer().has_value());
    return peer;
  };
  HostilePeer writer = greeted();
  HostilePeer other = greeted();
  const SealRecord record = RecordAt(0, 1000, 1);
  ASSERT_TRUE(writer.Send([&](std::byte* to) {
    return EncodeExtentRequest(FrameType::kClaim, 0, 2, {record.generation, record.extent}, to);
  }));
  ASSERT_TRUE(writer.TakeAnswer().has_value());
  ASSERT_TRUE(writer.Send(std::string("MP")) &&
              other.Send(std::string("MP")));  // both stop in the middle of a frame
  EXPECT_TRUE(other.SeesClose());
  EXPECT_EQ(server->counters().connections_open, 1u);
  EXPECT_EQ(target.open_claims(), 1u);
  writer.Close();
  EXPECT_TRUE(Eventually([&] { return target.open_claims() == 0; }));
  server->Stop();
}

// A node that never ends its answer, and sends descriptors with each byte of it.
TEST_F(ShmServerTest, ClientKeepsNoMoreDescriptorsThanAnAnswerHas) {
  std::array<int, 2> fds;
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds.data()), 0);
  const UniqueFd client(fds[0]);
  const UniqueFd node(fds[1]);
  const std::vector<int> many(100, node.get());
  const std::byte first[] = {std::byte{'M'}, std::byte{'P'}};
  for (const std::byte& byte : first) {
    const iovec vector{const_cast<std::byte*>(&byte), 1};
    ASSERT_THAT(Send(node.get(), absl::MakeConstSpan(&vector, 1), many), IsOk());
  }
  const CallContext context = Soon();
  EXPECT_THAT(ReceiveMemory(client.get(), HelloFor(Incarnation{1}, 0, kHelloMapping),
                            ConnectDeadline(context, absl::Seconds(5), clock_), clock_),
              Fails(absl::StatusCode::kUnavailable, ErrorReason::kBadFrame));
}

// Who holds up others while it makes progress takes little at a time.
TEST_F(ShmServerTest, OneProgressReadsNoMoreThanItsClientWants) {
  constexpr size_t kPayloadBytes = 1 << 20;
  constexpr size_t kProgressBytes = 64 << 10;
  FakeTarget target;
  const auto server = NewServer(target);
  ASSERT_THAT(server->Start(), IsOk());
  const auto transport = NewShmTransport({.host_id = {}, .progress_bytes = kProgressBytes}, clock_);
  ASSERT_OK_AND_ASSIGN(const auto channel, transport->Connect(Peer(target.incarnation()), Soon()));
  const std::vector<std::byte> payload = PatternBytes(kPayloadBytes, 1);
  WriteOp write = WriteOf(RecordAt(0, kPayloadBytes, 1), payload);
  ASSERT_THAT(channel->Submit(&write), IsOk());
  Channel* const channels[] = {channel.get()};
  while (channel->outstanding() > 0) {
    if (!channel->Progress()) waiter_.Wait(channels, Soon());
  }
  ASSERT_THAT(write.status, IsOk());
  // Into memory that begins inside a cache line, as the least convenient.
  std::vector<std::byte> got(kPayloadBytes + 1);
  ReadOp read =
      ReadOf(write.record.generation, write.record.extent, absl::MakeSpan(got).subspan(1));
  ASSERT_THAT(channel->Submit(&read), IsOk());
  size_t steps = 0;
  for (; channel->outstanding() > 0; ++steps) EXPECT_TRUE(channel->Progress());
  EXPECT_EQ(steps, kPayloadBytes / kProgressBytes);
  ASSERT_THAT(read.status, IsOk());
  EXPECT_TRUE(std::equal(payload.begin(), payload.end(), got.begin() + 1));
  server->Stop();
}

TEST_F(ShmServerTest, OtherHostsAreOutOfReach) {
  const auto transport = NewShmTransport({.host_id = "here"}, clock_);
  PeerAddress peer = Peer(Incarnation{1});
  EXPECT_FALSE(transport->Reaches(peer));
  peer.host_id = "there";
  EXPECT_FALSE(transport->Reaches(peer));
  peer.host_id = "here";
  EXPECT_TRUE(transport->Reaches(peer));
  peer.shm_path = "";
  EXPECT_FALSE(transport->Reaches(peer));
}

TEST_F(ShmServerTest, BadOptionsFailAtStart) {
  FakeTarget target;
  EXPECT_THAT(NewServer(target, true, 0)->Start(), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(NewServer(target, true, 1 << 20)->Start(),
              StatusIs(absl::StatusCode::kInvalidArgument));
  const UniqueFd loose(memfd_create("loose", MFD_CLOEXEC));
  const TempDir pool{kTmpfs};
  const UniqueFd shared(open((pool.path() + "/f").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_EQ(fchmod(shared.get(), 0660), 0);
  ShmServerOptions options;
  options.socket_path = path_;
  for (const int fd : {loose.get(), shared.get()}) {
    EXPECT_THAT(
        NewShmServer(target, {{SegmentId{0}, fd, 0}}, options, clock_, Logger::Null())->Start(),
        StatusIs(absl::StatusCode::kInvalidArgument));
  }
  options.socket_path = std::string(200, 'x');
  EXPECT_THAT(NewShmServer(target, {}, options, clock_, Logger::Null())->Start(),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace moonpool::transport
