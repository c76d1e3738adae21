// What processes on the same host may do to a node: frames of several peers and descriptors with
// them, and whatever they write into the pins and the memory that they were given. They may spoil
// what they may write; they get no more rights than were granted, and leave nothing behind, neither
// to this life of the node nor to one that finds their pins in files.
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "common/check.h"
#include "common/clock.h"
#include "common/testing/temp_dir.h"
#include "tests/fuzz/byte_feed.h"
#include "tests/fuzz/sockets.h"
#include "transport/frame.h"
#include "transport/shm/orphan_pins.h"
#include "transport/shm/pin_page.h"
#include "transport/shm/shm_server.h"
#include "transport/stream/connect.h"
#include "transport/stream/server_connection.h"
#include "transport/testing/fake_target.h"
#include "transport/wire_bytes.h"

namespace moonpool::transport {
namespace {

constexpr uint64_t kSegmentBytes = 64 * 1024;
constexpr Incarnation kIncarnation{1};
constexpr uint64_t kLengths[] = {kPartHeaderBytes, 192, 20'000, kSegmentBytes};
constexpr int kTurnsMax = 100'000;
constexpr uint32_t kPinSlots = 3;

ConstBytes AsBytes(absl::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

class Scene {
 public:
  explicit Scene(ByteFeed& feed)
      : feed_(feed), target_(kIncarnation, {kSegmentBytes, kSegmentBytes}) {
    static const TempDir dir{kTmpfs};
    ShmServerOptions options;
    options.socket_path = dir.path() + "/node.sock";
    options.pin_slots = kPinSlots;
    const size_t kind = feed_.Below(8);
    options.mapped_writers = kind % 4 != 3;
    stops_first_ = kind % 2 != 0;
    pins_are_files_ = kind >= 4;
    if (pins_are_files_) pins_dir_ = options.pins_dir = dir.path() + "/pins";
    std::vector<ShmSegment> segments;
    for (uint32_t i = 0; i < target_.segment_count(); ++i) {
      segments.push_back({SegmentId{i}, target_.segment_fd(i), target_.segment_bytes(i)});
    }
    backend_ = NewShmBackend(target_, std::move(segments), options);
    auto listening = backend_->Listen();
    MP_CHECK(listening.ok(), "cannot listen", listening.status().ToString());
    listening_ = *std::move(listening);
    limits_.claims_max = 3;
  }
  ~Scene() {
    if (pins_are_files_ && stops_first_) LookAsTheNextLife();
    for (Peer& peer : peers_) Leave(peer);
    MP_CHECK(!pins_are_files_ || std::filesystem::is_empty(pins_dir_), "a page of pins is left");
    MP_CHECK(target_.open_claims() == 0, "a claim outlives its connection");
    MP_CHECK(target_.viewer_count() == 0, "pins outlive their connection");
    MP_CHECK(counters_.connections_open.value() == 0, "a connection that is not counted out");
    backend_->Retire();
  }

  void Step() {
    Peer& peer = peers_[feed_.Below(peers_.size())];
    if (peer.connection == nullptr) Join(peer);
    switch (feed_.Below(8)) {
      case 0: return Leave(peer);
      case 1: Say(peer, AsBytes(feed_.Bytes())); break;
      case 2: WriteAndSeal(peer); break;
      case 3: return Pin(peer);
      case 4: return Scribble(peer);
      case 5: return Overreach(peer);
      default: Request(peer); break;
    }
    TakeTurns(peer);
  }

 private:
  struct Peer {
    Sockets sockets;
    std::unique_ptr<ServerConnection> connection;
    std::vector<UniqueFd> memory;  // as it came
    uint32_t grants = 0;
  };

  void Join(Peer& peer) {
    peer.sockets = Sockets();
    peer.connection = std::make_unique<ServerConnection>(
        std::move(peer.sockets.fed),
        ConnectionScope{target_, *backend_, limits_, clock_, counters_, absl::MakeSpan(scratch_)});
    HelloRequest hello = HelloFor(kIncarnation, 0, static_cast<uint32_t>(feed_.Below(4)));
    if (feed_.OneIn(16)) hello.incarnation = Incarnation{feed_.Number()};
    if (feed_.OneIn(16)) hello.wire_major = feed_.Byte();
    if (feed_.OneIn(16)) hello.wants = feed_.Number32();
    std::array<std::byte, kFrameBytesMax> frame;
    Say(peer, {frame.data(), EncodeHello(hello, 1, frame.data())});
    TakeTurns(peer);
  }

  // The connection ends with its socket, whatever state it is in.
  void Leave(Peer& peer) {
    peer.sockets.feeder.Close();
    TakeTurns(peer);
    MP_CHECK(peer.connection == nullptr, "the peer has gone, its connection has not");
    peer.memory.clear();
    peer.grants = 0;
  }

  void TakeTurns(Peer& peer) {
    if (peer.connection == nullptr) return;
    using Next = ServerConnection::Next;
    int turns = 0;
    Next next;
    while ((next = peer.connection->TakeTurn()) == Next::kTurn || Listen(peer)) {
      MP_CHECK(++turns < kTurnsMax, "turns without end");
      if (next == Next::kClosed) break;
    }
    Listen(peer);
    if (next == Next::kClosed) peer.connection.reset();
  }

  // False: there is nothing to hear.
  bool Listen(Peer& peer) {
    if (!peer.sockets.feeder.valid()) return false;
    std::array<std::byte, 65536> answers;
    iovec vector{answers.data(), answers.size()};
    alignas(cmsghdr) char control[CMSG_SPACE(kDescriptorsMax * sizeof(int))];
    msghdr message{};
    message.msg_iov = &vector;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    const ssize_t got = recvmsg(peer.sockets.feeder.get(), &message, MSG_CMSG_CLOEXEC);
    if (got <= 0) return false;
    TakeMemory(peer, &message, ConstBytes(answers).first(static_cast<size_t>(got)));
    return true;
  }

  static void TakeMemory(Peer& peer, msghdr* message, ConstBytes bytes) {
    const cmsghdr* rights = CMSG_FIRSTHDR(message);
    if (rights == nullptr) return;
    MP_CHECK(peer.memory.empty(), "memory is given once");
    const auto header = ParseAnswerHeader(bytes);
    MP_CHECK(header.ok() && header->type == FrameType::kHelloOk, "memory without a HELLO_OK");
    const auto answer = ParseHelloOk(bytes.subspan(kFrameHeaderBytes, header->body_bytes));
    MP_CHECK(answer.ok(), "a HELLO_OK that is none");
    peer.grants = answer->grants;
    const size_t count = (rights->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(rights) + i * sizeof(int), sizeof(int));
      peer.memory.emplace_back(fd);
    }
    const size_t segments = answer->segments.size();
    const bool is_writer = (peer.grants & kHelloMappedWriter) != 0;
    MP_CHECK(count == segments + 1 + (is_writer ? segments : 0), "descriptors", count);
  }

  // Sometimes with descriptors, which nobody has asked for.
  void Say(Peer& peer, ConstBytes bytes) {
    std::vector<int> descriptors;
    if (feed_.OneIn(8)) descriptors.assign(1 + feed_.Below(100), peer.sockets.feeder.get());
    peer.sockets.Say(bytes, descriptors);
  }

  // This life stops, and its peers go on with what they were given.
  void LookAsTheNextLife() {
    backend_->WillStop();
    size_t held = 0;
    for (Peer& peer : peers_) {
      if (peer.connection == nullptr) continue;
      peer.connection.reset();
      held += peer.memory.empty() ? 0 : 1;
    }
    const Generation claimed{7};
    auto orphans = AdoptPinPages(pins_dir_, {claimed});
    MP_CHECK(orphans.ok(), "pins that cannot be adopted", orphans.status().ToString());
    MP_CHECK(orphans->size() == held, "pages in use", orphans->size());
    for (const auto& pins : *orphans) {
      for (uint64_t i = 0; i < 7; ++i) pins->Holds(Generation{i});
      MP_CHECK(!pins->has_ended() && pins->Holds(claimed), "a writer that is forgotten");
    }
    for (Peer& peer : peers_) peer.memory.clear();
    for (const auto& pins : *orphans) {
      MP_CHECK(pins->has_ended() && !pins->Holds(claimed), "pins outlive their client");
    }
  }

  Generation AnyGeneration() { return Generation{1 + feed_.Below(6)}; }
  Extent Place() {
    Extent extent{SegmentId{static_cast<uint32_t>(feed_.Below(2))}, 0, feed_.OneOf(kLengths)};
    extent.offset = feed_.OneIn(8) ? feed_.Number() : 64 * feed_.Below(3);
    if (feed_.OneIn(8)) extent.length = feed_.Number();
    return extent;
  }
  SealRecord Record(Generation generation, const Extent& extent) {
    SealRecord record{
        .generation = generation, .name_space = {}, .key = "k", .parent = {}, .extent = extent};
    record.object_bytes = extent.payload_bytes();
    return record;
  }

  void Request(Peer& peer) {
    constexpr FrameType kTypes[] = {FrameType::kClaim, FrameType::kRead, FrameType::kRelease,
                                    FrameType::kSeal};
    const FrameType type = feed_.OneOf(kTypes);
    const ExtentRequest request{AnyGeneration(), Place()};
    std::array<std::byte, kFrameBytesMax> frame;
    size_t size = 0;
    if (type == FrameType::kSeal) {
      size = EncodeSeal(2, Record(request.generation, request.extent), frame.data());
    } else {
      const uint8_t flags = type == FrameType::kRead && feed_.OneIn(2) ? kFlagConfirm : 0;
      size = EncodeExtentRequest(type, flags, 2, request, frame.data());
    }
    Say(peer, {frame.data(), size});
  }

  // An ordinary put through the socket, which may stop in the middle.
  void WriteAndSeal(Peer& peer) {
    const Extent extent = Place();
    if (extent.length < kPartHeaderBytes || extent.length > kSegmentBytes) return;
    const Generation generation = AnyGeneration();
    std::vector<std::byte> said(2 * kFrameBytesMax + Padded(extent.payload_bytes()));
    size_t size =
        EncodeExtentRequest(FrameType::kWrite, kFlagQuiet, 2, {generation, extent}, said.data());
    size += Padded(extent.payload_bytes());
    size += EncodeSeal(3, Record(generation, extent), said.data() + size);
    if (feed_.OneIn(4)) size = feed_.Number() % size;
    Say(peer, ConstBytes(said).first(size));
  }

  // Any word of the page: slots, how many were used, magic.
  void Pin(Peer& peer) {
    const size_t at = target_.segment_count();
    if (peer.memory.size() <= at) return;
    std::array<std::byte, 8> value;
    StoreAs<uint64_t>(value.data(), feed_.OneIn(4) ? feed_.Number() : AnyGeneration().value);
    const size_t place = feed_.OneIn(2) ? kPinSlotsAt : 4 * feed_.Below(20);
    MP_CHECK(pwrite(peer.memory[at].get(), value.data(), value.size(), static_cast<off_t>(place)) ==
                     static_cast<ssize_t>(value.size()) ||
                 place + value.size() > PinPageBytes(kPinSlots),
             "pins that cannot be set");
  }

  // A mapped writer that keeps to no claim.
  void Scribble(Peer& peer) {
    const size_t at = target_.segment_count() + 1;
    if (peer.memory.size() <= at) return;
    const ConstBytes bytes = AsBytes(feed_.Bytes());
    [[maybe_unused]] const ssize_t written =
        pwrite(peer.memory[at].get(), bytes.data(), bytes.size(), 64 * feed_.Byte());
  }

  // Rights that no peer has: to write what was given for reading, to cut anything short. A page of
  // pins in a file it may cut short, or make longer than any page is.
  void Overreach(Peer& peer) {
    if (peer.memory.empty()) return;
    const size_t at = feed_.Below(peer.memory.size());
    if (pins_are_files_ && at == target_.segment_count()) {
      constexpr off_t kPageLengths[] = {0, 8, 63, 71, PinPageBytes(kPinSlots), 1 << 20};
      MP_CHECK(ftruncate(peer.memory[at].get(), feed_.OneOf(kPageLengths)) == 0,
               "a peer's own page");
      return;
    }
    MP_CHECK(ftruncate(peer.memory[at].get(), 0) != 0, "memory that a peer cuts short", at);
    if (at >= target_.segment_count()) return;
    MP_CHECK(pwrite(peer.memory[at].get(), "x", 1, 0) < 0, "a reader that writes");
  }

  ByteFeed& feed_;
  FakeTarget target_;
  bool pins_are_files_ = false;
  bool stops_first_ = false;  // the node, before its peers go
  std::string pins_dir_;
  const SteadyClock clock_ = {};
  StreamServerLimits limits_;
  IoCounters counters_;
  std::vector<std::byte> scratch_ = std::vector<std::byte>(4096);
  std::unique_ptr<StreamBackend> backend_;
  UniqueFd listening_;
  std::array<Peer, 3> peers_;
};

}  // namespace
}  // namespace moonpool::transport

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace moonpool::transport;
  const int next_descriptor = NextDescriptor();
  {
    moonpool::ByteFeed feed(data, size);
    Scene scene(feed);
    while (!feed.empty()) scene.Step();
  }
  MP_CHECK(NextDescriptor() == next_descriptor, "a descriptor was kept");
  return 0;
}
