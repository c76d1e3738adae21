#include "transport/testing/conformance.h"

#include <sched.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "transport/testing/conformance_scene.h"

namespace moonpool::transport {
namespace {

class RegisteredCase final : public testing::Test {
 public:
  explicit RegisteredCase(std::function<void()> body) : body_(std::move(body)) {}
  void TestBody() override { body_(); }

 private:
  const std::function<void()> body_;
};

void Register(const std::string& suite, const char* name, std::function<void()> body) {
  testing::RegisterTest(suite.c_str(), name, nullptr, nullptr, __FILE__, __LINE__,
                        [body]() -> testing::Test* { return new RegisteredCase(body); });
}

template <typename Span>
absl::InlinedVector<Span, 1> Cut(Span bytes, Random& random) {
  absl::InlinedVector<Span, 1> pieces;
  while (!bytes.empty()) {
    const size_t most = std::max<size_t>(1, bytes.size() / 3);
    const size_t size =
        random.OneIn(8) ? 0 : std::min(bytes.size(), 1 + static_cast<size_t>(random.Below(most)));
    pieces.push_back(bytes.first(size));
    bytes.remove_prefix(size);
  }
  return pieces;
}

}  // namespace

bool RegisterTransportConformance(const std::string& name, BackendFactory factory) {
  const std::string suite = name + "Conformance";
  for (const auto& cases : {TransferCases(), OwnershipCases(), FailureCases(), ViewCases()}) {
    for (const ConformanceCase& one : cases) {
      Register(suite, one.name, [run = one.run, factory] {
        ConformanceScene scene(factory());
        if (!testing::Test::HasFatalFailure()) run(scene);
      });
    }
  }
  for (const ProcessCase& one : ProcessCases()) {
    Register(suite, one.name, [run = one.run, factory] { run(factory); });
  }
  return true;
}

ConformanceScene::ConformanceScene(std::unique_ptr<BackendUnderTest> backend,
                                   std::vector<uint64_t> segment_bytes)
    : backend_(std::move(backend)),
      target_(Incarnation{0x1234}, std::move(segment_bytes), backend_->pool_folder()),
      server_(backend_->MakeServer(target_)),
      transport_(backend_->MakeTransport({})) {
  EXPECT_THAT(server_->Start(), IsOk());
}

ConformanceScene::~ConformanceScene() { server_->Stop(); }

CallContext ConformanceScene::Within(absl::Duration timeout) {
  return {.deadline = waiter().clock().Now() + timeout, .cancel = {}};
}

std::unique_ptr<Channel> ConformanceScene::Connect() {
  auto channel = transport_->Connect(peer(), Within(kPatience));
  EXPECT_THAT(channel, IsOk());
  return channel.ok() ? *std::move(channel) : nullptr;
}

absl::Status ConformanceScene::Complete(Channel& channel, const CallContext& context) {
  Channel* const one[] = {&channel};
  return CompleteAll(one, context, waiter());
}

absl::Status ConformanceScene::Write(Channel& channel, const SealRecord& record,
                                     ConstBytes payload) {
  WriteOp op = WriteOf(record, payload);
  RETURN_IF_ERROR(channel.Submit(&op));
  RETURN_IF_ERROR(Complete(channel));
  EXPECT_TRUE(op.done);
  return op.status;
}

absl::StatusOr<std::vector<std::byte>> ConformanceScene::Read(Channel& channel,
                                                              Generation generation,
                                                              const Extent& extent) {
  std::vector<std::byte> payload(extent.payload_bytes());
  ReadOp op = ReadOf(generation, extent, absl::MakeSpan(payload));
  RETURN_IF_ERROR(channel.Submit(&op));
  RETURN_IF_ERROR(Complete(channel));
  EXPECT_TRUE(op.done);
  RETURN_IF_ERROR(op.status);
  return payload;
}

SealRecord RecordAt(uint64_t offset, uint64_t payload_bytes, uint32_t counter) {
  SealRecord record;
  record.generation = Generation::Of(Term{1}, counter);
  record.name_space = "conformance";
  record.key = absl::StrCat("key-", counter);
  record.parent = counter % 2 == 0 ? "" : absl::StrCat("parent-", counter);
  record.extent = {SegmentId{0}, offset, payload_bytes + kPartHeaderBytes};
  record.object_bytes = payload_bytes;
  return record;
}

std::vector<std::byte> PatternBytes(size_t size, uint64_t seed) {
  std::vector<std::byte> bytes(size);
  Random random(seed);
  for (size_t at = 0; at < size; at += sizeof(uint64_t)) {
    const uint64_t next = random.Next();
    std::memcpy(bytes.data() + at, &next, std::min(sizeof(next), size - at));
  }
  return bytes;
}

ConstPieces Scattered(ConstBytes bytes, Random& random) { return Cut(bytes, random); }
MutablePieces Scattered(MutableBytes bytes, Random& random) { return Cut(bytes, random); }

WriteOp WriteOf(const SealRecord& record, ConstBytes payload) {
  WriteOp op;
  op.record = record;
  op.from = {payload};
  return op;
}

ReadOp ReadOf(Generation generation, const Extent& extent, MutableBytes into) {
  ReadOp op;
  op.generation = generation;
  op.extent = extent;
  op.into = {into};
  return op;
}

bool Eventually(const std::function<bool()>& is_true) {
  const SteadyClock clock;
  const absl::Time until = clock.Now() + ConformanceScene::kPatience;
  while (!is_true()) {
    if (clock.Now() >= until) return false;
    sched_yield();
  }
  return true;
}

}  // namespace moonpool::transport
