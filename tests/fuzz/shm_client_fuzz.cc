// What a node on the same host may do to a client: its answer to HELLO and the descriptors that
// come with it, the memory and the pins that it goes on to change, and its answers to mapped
// writes. A call may fail and a node may lie, but nothing outside the mapping is touched, a read
// that is OK has the bytes of its header, and no descriptor is kept.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/check.h"
#include "common/checksum.h"
#include "common/testing/temp_dir.h"
#include "common/version.h"
#include "tests/fuzz/byte_feed.h"
#include "tests/fuzz/sockets.h"
#include "transport/frame.h"
#include "transport/part_header.h"
#include "transport/shm/pin_file.h"
#include "transport/shm/pin_page.h"
#include "transport/shm/shm_channel.h"
#include "transport/shm/shm_peer.h"
#include "transport/stream/connect.h"
#include "transport/wire_bytes.h"

namespace moonpool::transport {
namespace {

constexpr uint64_t kSegmentBytes = 64 * 1024;
constexpr uint32_t kPinSlots = 3;
constexpr Incarnation kIncarnation{1};
constexpr size_t kViewsMax = 5;
constexpr size_t kOpsMax = 16;
// Lengths of extents: without a payload, with a small one, with one that is written in place, and
// the whole segment.
constexpr uint64_t kLengths[] = {kPartHeaderBytes, 192, 20'000, kSegmentBytes};
constexpr std::byte kFill{'.'};

// Each look takes a moment: who waits for a silent node has its deadline soon, and the test with
// it.
class LookedAtClock final : public Clock {
 public:
  absl::Time Now() const override { return now_ += absl::Nanoseconds(1); }
  void Advance(absl::Duration duration) { now_ += duration; }

 private:
  mutable absl::Time now_ = absl::UnixEpoch() + absl::Seconds(1);
};
constexpr absl::Duration kConnectTimeout = absl::Nanoseconds(60);

UniqueFd NewMemory(uint64_t bytes, int seals) {
  UniqueFd fd(memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  MP_CHECK(fd.valid() && ftruncate(fd.get(), static_cast<off_t>(bytes)) == 0, "no memory");
  MP_CHECK(fcntl(fd.get(), F_ADD_SEALS, seals) == 0, "no seals");
  return fd;
}

// A file without a name on tmpfs.
UniqueFd NewFile(uint64_t bytes, mode_t mode) {
  UniqueFd fd(open(kTmpfs, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  MP_CHECK(fd.valid() && ftruncate(fd.get(), static_cast<off_t>(bytes)) == 0, "no file");
  MP_CHECK(fchmod(fd.get(), mode) == 0, "no rights");
  return fd;
}

void Write(int fd, ConstBytes bytes, uint64_t at) {
  // What is sealed or short stays as it is.
  [[maybe_unused]] const ssize_t written =
      pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(at));
}

ConstBytes AsBytes(absl::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

class Scene {
 public:
  explicit Scene(ByteFeed& feed) : feed_(feed) {
    memory_ = NewMemory(kSegmentBytes, F_SEAL_SHRINK);
  }
  // Views outlive the channel and the connection.
  ~Scene() {
    FinishOps();
    channel_.reset();
    peer_.reset();
    for (const Viewed& view : views_) Look(view);
  }

  void Run() {
    SayHello();
    const CallContext context;
    auto peer =
        ShmPeer::ShakeHands(std::move(session_.fed), HelloFor(kIncarnation, 0, kHelloMapping),
                            ConnectDeadline(context, kConnectTimeout, clock_), clock_, {});
    if (!peer.ok()) return;
    peer_ = *std::move(peer);
    OpenChannel();
    while (!feed_.empty()) Step();
  }

 private:
  struct Viewed {
    std::unique_ptr<PinnedPart> part;
    Generation generation;
    Extent extent;
  };
  template <typename T>
  struct Started {
    std::vector<std::byte> buffer;
    T op;
  };

  // The node's answer to HELLO: true, or nearly.
  void SayHello() {
    const size_t kind = feed_.Below(8);
    MakePage(/*is_file=*/kind >= 4);
    HelloAnswer answer{.wire_major = kWireMajor,
                       .wire_minor = kWireMinor,
                       .incarnation = kIncarnation,
                       .grants = kHelloMapping | kHelloMappedWriter,
                       .pin_slots = kPinSlots,
                       .segments = {{SegmentId{0}, kSegmentBytes}}};
    std::vector<int> descriptors = {memory_.get(), page_->fd(), memory_.get()};
    for (size_t i = kind % 4; i > 0; --i) Spoil(answer, descriptors);
    std::array<std::byte, kFrameBytesMax> frame;
    size_t size = EncodeHelloOk(1, answer, frame.data());
    if (feed_.OneIn(8)) size = EncodeError(FrameType::kHello, 1, Refusal(), frame.data());
    if (feed_.OneIn(8)) frame[feed_.Number() % size] = std::byte{feed_.Byte()};
    if (feed_.OneIn(8)) size = feed_.Number() % size;
    const size_t pieces = 1 + feed_.Below(4);
    const ConstBytes all(frame.data(), size);
    for (size_t i = 0; i < pieces; ++i) {
      const size_t from = size * i / pieces;
      // The descriptors come with the first byte, or with any and over again.
      const bool has_descriptors = i == 0 || feed_.OneIn(4);
      session_.Say(all.subspan(from, size * (i + 1) / pieces - from),
                   has_descriptors ? descriptors : std::vector<int>{});
    }
    if (feed_.OneIn(4)) session_.Say(AsBytes(feed_.Bytes()));
    if (feed_.OneIn(4)) shutdown(session_.feeder.get(), SHUT_WR);
  }

  void MakePage(bool is_file) {
    static const TempDir dir{kTmpfs};
    auto page = is_file ? PinFile::Create(dir.path(), kPinSlots) : PinPage::Create(kPinSlots);
    MP_CHECK(page.ok(), "no page of pins");
    page_ = *std::move(page);
  }

  void Spoil(HelloAnswer& answer, std::vector<int>& descriptors) {
    switch (feed_.Below(8)) {
      case 0: answer.grants = feed_.Byte(); break;
      case 1: answer.pin_slots = feed_.Number32(); break;
      case 2: answer.wire_major = feed_.Byte(); break;
      case 3: answer.segments.clear(); break;
      case 4:
        if (answer.segments.size() < kMappedSegmentsMax) {
          answer.segments.push_back({SegmentId{static_cast<uint32_t>(feed_.Below(3))},
                                     feed_.OneIn(2) ? feed_.Number() : kSegmentBytes});
          descriptors.insert(descriptors.begin(), memory_.get());
          descriptors.push_back(memory_.get());
        }
        break;
      case 5: {
        const int odd = OddDescriptor();
        descriptors.resize(feed_.Below(200), odd);
        break;
      }
      default:
        if (!descriptors.empty()) descriptors[feed_.Byte() % descriptors.size()] = OddDescriptor();
    }
  }

  int OddDescriptor() {
    const auto give = [this](UniqueFd fd) { return odd_.emplace_back(std::move(fd)).get(); };
    switch (feed_.Below(9)) {
      case 0: return give(NewMemory(kSegmentBytes, 0));
      case 1: return give(NewMemory(feed_.Number() & 0xffff, F_SEAL_SHRINK));
      case 2: return give(NewMemory(kSegmentBytes, F_SEAL_SHRINK | F_SEAL_WRITE));
      case 3: return give(NewMemory(uint64_t{1} << 40, F_SEAL_SHRINK));  // of holes
      case 4: return give(UniqueFd(open("/dev/zero", O_RDWR | O_CLOEXEC)));
      case 5: return give(UniqueFd(open("/", O_RDONLY | O_CLOEXEC)));
      case 6: return give(NewFile(kSegmentBytes, 0620));
      case 7: return trusted_.emplace_back(NewFile(feed_.Number() & 0x1ffff, 0600)).get();
      default: return session_.feeder.get();
    }
  }

  absl::Status Refusal() {
    return absl::Status(static_cast<absl::StatusCode>(1 + feed_.Below(16)), "no");
  }

  void OpenChannel() {
    std::array<std::byte, kFrameBytesMax> frame;
    const HelloAnswer answer{.wire_major = kWireMajor,
                             .wire_minor = kWireMinor,
                             .incarnation = kIncarnation,
                             .grants = kHelloMappedWriter,
                             .pin_slots = 0,
                             .segments = {}};
    answers_.Say({frame.data(), EncodeHelloOk(1, answer, frame.data())});
    auto stream = std::make_unique<ClientStream>(
        std::move(answers_.fed), HelloFor(kIncarnation, 0, kHelloMappedWriter),
        ClientStream::Limits{kOpsMax, 4 * kSegmentBytes}, peer_.get());
    while (stream->Progress()) {
    }
    MP_CHECK(stream->is_ready(), "an honest hello");
    ShmClientOptions options;
    options.outstanding_ops_max = kOpsMax;
    options.outstanding_bytes_max = kSegmentBytes;
    channel_ = std::make_unique<ShmChannel>(peer_, std::move(stream), options);
  }

  void Step() {
    switch (feed_.Below(12)) {
      case 0: return Scribble();
      case 1: return Seal();
      case 2: return SpoilPins();
      case 3: return SpoilConnection();
      case 4: return TouchMapping();
      case 5: return OpenView();
      case 6: return DropView();
      case 7: return Read();
      case 8: return Write();
      case 9: return Answer();
      case 10: clock_.Advance(absl::Milliseconds(feed_.Below(3))); return;
      default: channel_->Progress(); return;
    }
  }

  Generation AnyGeneration() { return Generation{feed_.Below(4)}; }
  Extent Place() {
    Extent extent{SegmentId{static_cast<uint32_t>(feed_.Below(2))}, 0, feed_.OneOf(kLengths)};
    extent.offset = feed_.OneIn(4) ? feed_.Number() : 64 * feed_.Below(3);
    if (feed_.OneIn(4)) extent.length = feed_.Number();
    return extent;
  }

  // The node's own hand on the memory.
  void Scribble() {
    if (feed_.OneIn(8)) {  // what is sealed does not let it, all else was not mapped
      for (const UniqueFd& fd : odd_) {
        [[maybe_unused]] const int cut = ftruncate(fd.get(), 0);
      }
    }
    const uint64_t at = feed_.Number();
    transport::Write(memory_.get(), AsBytes(feed_.Bytes()), at);
  }
  void Seal() {
    const Extent extent = Place();
    if (!Validate(extent).ok() || extent.length > kSegmentBytes) return;
    const std::vector<std::byte> payload(extent.payload_bytes(), std::byte{feed_.Byte()});
    alignas(8) std::array<std::byte, kPartHeaderBytes> header;
    EncodePartHeader({.generation = AnyGeneration(),
                      .payload_bytes = feed_.OneIn(8) ? feed_.Number() : payload.size(),
                      .payload_checksum = Checksum(payload),
                      .object_bytes = payload.size()},
                     header.data());
    transport::Write(memory_.get(), header, extent.offset);
    transport::Write(memory_.get(), payload, extent.offset + header.size());
  }
  void SpoilPins() {
    if (feed_.OneIn(4)) return page_->Close();
    const uint64_t value = feed_.Number();
    std::array<std::byte, 8> bytes;
    StoreAs(bytes.data(), value);
    transport::Write(page_->fd(), bytes, 4 * feed_.Below(PinPageBytes(kPinSlots) / 4));
  }
  void SpoilConnection() {
    Sockets& sockets = feed_.OneIn(2) ? session_ : answers_;
    if (feed_.OneIn(2)) return sockets.feeder.Close();
    sockets.Say(AsBytes(feed_.Bytes()));
  }

  void TouchMapping() {
    const Extent extent = Place();
    const ConstBytes readable = peer_->Readable(extent);
    const MutableBytes writable = peer_->Writable(extent);
    MP_CHECK(readable.empty() || readable.size() == extent.length, "another size");
    MP_CHECK(writable.empty() || writable.size() == extent.length, "another size");
    if (!readable.empty()) {
      [[maybe_unused]] const volatile std::byte last = readable.back();
    }
    if (!writable.empty()) writable.back() = std::byte{feed_.Byte()};
  }

  static void Look(const Viewed& view) {
    const PartHeader& header = view.part->header();
    const ConstBytes payload = view.part->payload();
    MP_CHECK(header.generation == view.generation, "a view of another generation");
    MP_CHECK(payload.size() == view.extent.payload_bytes(), "a view of another size");
    MP_CHECK(header.payload_bytes == payload.size(), "its header says another size");
    if (!payload.empty()) [[maybe_unused]]
      const volatile std::byte last = payload.back();
    view.part->still_pinned();
  }
  void OpenView() {
    Viewed view{.part = nullptr, .generation = AnyGeneration(), .extent = Place()};
    auto part = channel_->views()->OpenView(view.generation, view.extent);
    if (!part.ok() || views_.size() == kViewsMax) return;
    view.part = *std::move(part);
    Look(view);
    views_.push_back(std::move(view));
  }
  void DropView() {
    if (views_.empty()) return;
    Look(views_.front());
    views_.pop_front();
  }

  // Exactly as large as it has to be: what is written beyond is seen.
  static std::vector<std::byte> BufferFor(const Extent& extent) {
    const bool is_possible = extent.length >= kPartHeaderBytes && extent.length <= kSegmentBytes;
    return std::vector<std::byte>(is_possible ? extent.payload_bytes() : 0, kFill);
  }
  void Read() {
    if (reads_.size() == kOpsMax) return;
    Started<ReadOp>& read = reads_.emplace_back();
    read.op.generation = AnyGeneration();
    read.op.extent = Place();
    read.op.verify = !feed_.OneIn(4);
    read.buffer = BufferFor(read.op.extent);
    read.op.into = {absl::MakeSpan(read.buffer)};
    if (!channel_->Submit(&read.op).ok()) reads_.pop_back();
  }
  void Write() {
    if (writes_.size() == kOpsMax) return;
    Started<WriteOp>& write = writes_.emplace_back();
    write.op.record.generation = AnyGeneration();
    write.op.record.key = "k";
    write.op.record.extent = Place();
    write.buffer = BufferFor(write.op.record.extent);
    write.op.from = {absl::MakeConstSpan(write.buffer)};
    if (!channel_->Submit(&write.op).ok()) writes_.pop_back();
  }

  void Answer() {
    constexpr FrameType kAnswered[] = {FrameType::kClaim, FrameType::kSeal, FrameType::kWrite,
                                       FrameType::kRead};
    std::array<std::byte, kFrameBytesMax> frame;
    const FrameType request = feed_.OneOf(kAnswered);
    const uint64_t id = 2 + feed_.Below(12);
    const size_t size = feed_.OneIn(4) ? EncodeError(request, id, Refusal(), frame.data())
                                       : EncodeOk(request, id, frame.data());
    answers_.Say({frame.data(), size});
    channel_->Progress();
  }

  void FinishOps() {
    if (channel_ == nullptr) return;
    answers_.feeder.Close();
    while (channel_->Progress()) {
    }
    for (const Started<ReadOp>& read : reads_) {
      MP_CHECK(read.op.done, "a read waits for a node that has gone");
      if (!read.op.status.ok()) continue;
      MP_CHECK(read.op.header.generation == read.op.generation, "another generation");
      MP_CHECK(!read.op.verify || Checksum(read.buffer) == read.op.header.payload_checksum,
               "other bytes than the header's");
    }
    for (const Started<WriteOp>& write : writes_) {
      MP_CHECK(write.op.done, "a write waits for a node that has gone");
    }
  }

  ByteFeed& feed_;
  LookedAtClock clock_;
  Sockets session_;  // holds the pins
  Sockets answers_;
  UniqueFd memory_;
  std::vector<UniqueFd> odd_;
  std::vector<UniqueFd> trusted_;  // that their owner cuts none of them short is the client's trust
  std::unique_ptr<PinPage> page_;
  std::shared_ptr<ShmPeer> peer_;
  std::deque<Viewed> views_;
  std::deque<Started<ReadOp>> reads_;
  std::deque<Started<WriteOp>> writes_;
  std::unique_ptr<ShmChannel> channel_;
};

}  // namespace
}  // namespace moonpool::transport

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace moonpool::transport;
  const int next_descriptor = NextDescriptor();
  {
    moonpool::ByteFeed feed(data, size);
    Scene(feed).Run();
  }
  MP_CHECK(NextDescriptor() == next_descriptor, "a descriptor was kept");
  return 0;
}
