// The data path's wire: what a server makes of a client's bytes, and a client of a server's. The
// first byte of the input says who is fed the rest.
#include <array>
#include <cstdint>
#include <memory>
#include <variant>
#include <vector>

#include "common/check.h"
#include "common/clock.h"
#include "tests/fuzz/sockets.h"
#include "transport/frame.h"
#include "transport/part_header.h"
#include "transport/stream/client_stream.h"
#include "transport/stream/connect.h"
#include "transport/stream/server_connection.h"
#include "transport/testing/fake_target.h"

namespace moonpool::transport {
namespace {

// What was understood must survive being said again.
void CheckRequest(const FrameHeader& header, const RequestBody& body) {
  std::array<std::byte, kFrameBytesMax> again;
  size_t size = 0;
  if (const auto* hello = std::get_if<HelloRequest>(&body)) {
    size = EncodeHello(*hello, header.request_id, again.data());
  } else if (const auto* record = std::get_if<SealRecord>(&body)) {
    size = EncodeSeal(header.request_id, *record, again.data());
  } else {
    size = EncodeExtentRequest(header.type, header.flags, header.request_id,
                               std::get<ExtentRequest>(body), again.data());
  }
  const auto same = ParseRequestHeader(ConstBytes(again).first(size));
  MP_CHECK(same.ok() && same->attached_bytes == header.attached_bytes, "request changed");
  const auto same_body =
      ParseRequestBody(*same, ConstBytes(again).subspan(kFrameHeaderBytes, same->body_bytes));
  MP_CHECK(same_body.ok(), "request changed");
}

void ParseRequests(ConstBytes bytes) {
  while (bytes.size() >= kFrameHeaderBytes) {
    const auto header = ParseRequestHeader(bytes);
    if (!header.ok() || bytes.size() < header->frame_bytes()) return;
    const auto body =
        ParseRequestBody(*header, bytes.subspan(kFrameHeaderBytes, header->body_bytes));
    if (!body.ok()) return;
    CheckRequest(*header, *body);
    bytes.remove_prefix(header->frame_bytes());
  }
}

void ParseAnswers(ConstBytes bytes) {
  while (bytes.size() >= kFrameHeaderBytes) {
    const auto header = ParseAnswerHeader(bytes);
    if (!header.ok() || bytes.size() < header->frame_bytes()) return;
    const ConstBytes body = bytes.subspan(kFrameHeaderBytes, header->body_bytes);
    if (header->type == FrameType::kHelloOk) {
      const auto answer = ParseHelloOk(body);
      MP_CHECK(!answer.ok() || answer->segments.size() <= kMappedSegmentsMax, "too many segments");
    } else if (header->type == FrameType::kError) {
      MP_CHECK(!ParseError(body).ok(), "an error that is none");
    }
    bytes.remove_prefix(header->frame_bytes());
  }
}

// A client with ops outstanding: each of them ends, whatever the server says.
void FeedClient(ConstBytes bytes) {
  Sockets sockets;
  std::vector<std::byte> buffer(5000);
  ReadOp read;
  read.generation = Generation{1};
  read.extent = {SegmentId{0}, 0, buffer.size() + kPartHeaderBytes};
  read.into = {absl::MakeSpan(buffer)};
  ReadOp unverified = read;
  unverified.verify = false;
  WriteOp write;
  write.record.generation = Generation{2};
  write.record.key = "k";
  write.record.extent = read.extent;
  write.from = {ConstBytes(buffer)};
  ClientStream stream(std::move(sockets.fed), HelloFor(Incarnation{1}, 0, 0), {}, nullptr);
  MP_CHECK(stream.Add(&read).ok() && stream.Add(&unverified).ok() && stream.Add(&write).ok(),
           "no room");
  while (stream.Progress()) {
  }  // the requests are out: an answer may come
  sockets.Feed(bytes);
  while (stream.Progress()) {
  }
  MP_CHECK(read.done && unverified.done && write.done, "the server has gone, and an op waits");
}

class NoBackend final : public StreamBackend {
 public:
  class Session final : public PeerSession {
   public:
    bool is_mapped_writer() const override { return true; }
  };
  absl::StatusOr<UniqueFd> Listen() override { return UniqueFd(); }
  void Retire() override {}
  void Prepare(int) override {}
  absl::StatusOr<std::unique_ptr<PeerSession>> Admit(int, const HelloRequest&, HelloAnswer*,
                                                     std::vector<int>*) override {
    return std::make_unique<Session>();
  }
};

// A server's connection, after an honest HELLO.
void FeedServer(ConstBytes bytes) {
  static FakeTarget target(Incarnation{1}, {1 << 20});
  static const SteadyClock clock;
  NoBackend backend;
  const StreamServerLimits limits;
  IoCounters counters;
  std::vector<std::byte> scratch(4096);
  {
    Sockets sockets;
    ServerConnection connection(std::move(sockets.fed), {target, backend, limits, clock, counters,
                                                         absl::MakeSpan(scratch)});
    std::array<std::byte, kFrameBytesMax> hello;
    const size_t size = EncodeHello(HelloFor(Incarnation{1}, 0, 0), 1, hello.data());
    MP_CHECK(send(sockets.feeder.get(), hello.data(), size, 0) > 0, "no hello");
    connection.TakeTurn();
    sockets.Feed(bytes);
    std::array<std::byte, 65536> answers;
    int turns = 0;
    while (connection.TakeTurn() != ServerConnection::Next::kClosed) {
      [[maybe_unused]] const ssize_t got =
          recv(sockets.feeder.get(), answers.data(), answers.size(), 0);
      MP_CHECK(++turns < 100'000, "the connection does not end");
    }
  }
  MP_CHECK(target.open_claims() == 0, "a claim outlives its connection");
}

}  // namespace
}  // namespace moonpool::transport

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace moonpool::transport;
  if (size == 0) return 0;
  const ConstBytes bytes(reinterpret_cast<const std::byte*>(data) + 1, size - 1);
  switch (data[0] % 5) {
    case 0: ParseRequests(bytes); break;
    case 1: ParseAnswers(bytes); break;
    case 2: FeedClient(bytes); break;
    case 3: FeedServer(bytes); break;
    default: DecodePartHeader(bytes).IgnoreError(); break;
  }
  return 0;
}
