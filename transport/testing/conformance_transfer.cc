// Bytes arrive as they were sent, in every size, shape and number.
#include <algorithm>
#include <atomic>
#include <deque>
#include <thread>

#include "transport/testing/conformance_scene.h"

namespace moonpool::transport {
namespace {

void RoundTripsEverySize(ConformanceScene& scene) {
  const auto channel = scene.Connect();
  ASSERT_NE(channel, nullptr);
  Random random(1);
  uint64_t offset = 0;
  uint32_t counter = 0;
  for (const size_t size :
       std::initializer_list<size_t>{0, 1, 63, 64, 4095, 4096, 65537, 1u << 20, 5u << 20}) {
    for (const bool scatter : {false, true}) {
      const SealRecord record = RecordAt(offset, size, ++counter);
      const std::vector<std::byte> payload = PatternBytes(size, counter);
      WriteOp write = WriteOf(record, payload);
      if (scatter) write.from = Scattered(ConstBytes(payload), random);
      ASSERT_THAT(channel->Submit(&write), IsOk());
      ASSERT_THAT(scene.Complete(*channel), IsOk());
      ASSERT_THAT(write.status, IsOk()) << size;
      EXPECT_EQ(scene.target().PayloadOf(record.extent), payload) << size;

      std::vector<std::byte> got(size, std::byte{0xee});
      ReadOp read = ReadOf(record.generation, record.extent, absl::MakeSpan(got));
      if (scatter) read.into = Scattered(absl::MakeSpan(got), random);
      ASSERT_THAT(channel->Submit(&read), IsOk());
      ASSERT_THAT(scene.Complete(*channel), IsOk());
      ASSERT_THAT(read.status, IsOk()) << size;
      EXPECT_EQ(got, payload) << size;
      EXPECT_EQ(read.header, HeaderOf(write.record)) << size;
      offset += (record.extent.length + 63) / 64 * 64;
    }
  }
}

void BatchesOfHundredsOfOpsComplete(ConformanceScene& scene) {
  const auto channel = scene.Connect();
  ASSERT_NE(channel, nullptr);
  constexpr size_t kOps = 400;
  std::vector<std::vector<std::byte>> payloads;
  std::deque<WriteOp> writes;
  uint64_t offset = 0;
  Random random(2);
  for (uint32_t i = 0; i < kOps; ++i) {
    payloads.push_back(PatternBytes(random.Below(i % 50 == 0 ? 300'000 : 9'000), i));
    const SealRecord record = RecordAt(offset, payloads.back().size(), i + 1);
    writes.push_back(WriteOf(record, payloads.back()));
    ASSERT_THAT(channel->Submit(&writes.back()), IsOk());
    offset += (record.extent.length + 63) / 64 * 64;
  }
  ASSERT_THAT(scene.Complete(*channel), IsOk());
  std::deque<ReadOp> reads;
  std::vector<std::vector<std::byte>> got(kOps);
  for (size_t i = 0; i < kOps; ++i) {
    ASSERT_THAT(writes[i].status, IsOk()) << i;
    got[i].resize(payloads[i].size());
    reads.push_back(
        ReadOf(writes[i].record.generation, writes[i].record.extent, absl::MakeSpan(got[i])));
    ASSERT_THAT(channel->Submit(&reads.back()), IsOk());
  }
  ASSERT_THAT(scene.Complete(*channel), IsOk());
  for (size_t i = 0; i < kOps; ++i) {
    ASSERT_THAT(reads[i].status, IsOk()) << i;
    EXPECT_TRUE(got[i] == payloads[i]) << i;
  }
  EXPECT_EQ(scene.target().seal_count(), kOps);
  EXPECT_EQ(scene.target().open_claims(), 0u);
}

void ReadsAndWritesMixInOneBatch(ConformanceScene& scene) {
  const auto channel = scene.Connect();
  ASSERT_NE(channel, nullptr);
  const std::vector<std::byte> old_payload = PatternBytes(700'000, 1);
  const SealRecord old_record = RecordAt(0, old_payload.size(), 1);
  ASSERT_THAT(scene.Write(*channel, old_record, old_payload), IsOk());
  std::deque<WriteOp> writes;
  std::deque<ReadOp> reads;
  std::vector<std::vector<std::byte>> got(8, std::vector<std::byte>(old_payload.size()));
  for (uint32_t i = 0; i < 8; ++i) {
    writes.push_back(WriteOf(RecordAt((i + 1) << 20, old_payload.size(), i + 2), old_payload));
    reads.push_back(ReadOf(old_record.generation, old_record.extent, absl::MakeSpan(got[i])));
    ASSERT_THAT(channel->Submit(&writes.back()), IsOk());
    ASSERT_THAT(channel->Submit(&reads.back()), IsOk());
  }
  ASSERT_THAT(scene.Complete(*channel), IsOk());
  for (size_t i = 0; i < 8; ++i) {
    EXPECT_THAT(writes[i].status, IsOk());
    EXPECT_THAT(reads[i].status, IsOk());
    EXPECT_TRUE(got[i] == old_payload);
  }
}

void UnverifiedReadSkipsTheChecksumOnly(ConformanceScene& scene) {
  const auto channel = scene.Connect();
  ASSERT_NE(channel, nullptr);
  const std::vector<std::byte> payload = PatternBytes(100'000, 1);
  const SealRecord record = RecordAt(0, payload.size(), 1);
  ASSERT_THAT(scene.Write(*channel, record, payload), IsOk());
  scene.target().CorruptPayload(record.extent, 77);
  std::vector<std::byte> got(payload.size());
  ReadOp read = ReadOf(record.generation, record.extent, absl::MakeSpan(got));
  read.verify = false;
  ASSERT_THAT(channel->Submit(&read), IsOk());
  ASSERT_THAT(scene.Complete(*channel), IsOk());
  EXPECT_THAT(read.status, IsOk());
  EXPECT_EQ(got, scene.target().PayloadOf(record.extent));
}

void EmptyBatchNeedsNoWaiting(ConformanceScene& scene) {
  const auto channel = scene.Connect();
  ASSERT_NE(channel, nullptr);
  EXPECT_EQ(channel->outstanding(), 0u);
  EXPECT_TRUE(channel->healthy());
  EXPECT_THAT(scene.Complete(*channel, scene.Within(absl::ZeroDuration())), IsOk());
}

// One thread's share of the stress: its own channel, its own stretch of the pool, and reads of what
// the others have written.
class Worker {
 public:
  Worker(ConformanceScene& scene, uint32_t index, std::atomic<uint32_t>& counter)
      : scene_(scene), index_(index), counter_(counter), random_(index + 100) {}

  void Run() {
    const auto channel = scene_.Connect();
    ASSERT_NE(channel, nullptr);
    for (int i = 0; i < 60 && !testing::Test::HasFailure(); ++i) {
      if (random_.OneIn(3) || written_.empty()) {
        WriteOne(*channel);
      } else {
        ReadOne(*channel);
      }
    }
  }

 private:
  struct Written {
    SealRecord record;
    uint64_t seed;
  };
  static constexpr uint64_t kSlotBytes = 512 * 1024;
  static constexpr uint64_t kSlots = 8;

  // The newest generation takes the slot from its older owner.
  void WriteOne(Channel& channel) {
    const uint64_t slot = index_ * kSlots + random_.Below(kSlots);
    const uint64_t size = random_.Below(random_.OneIn(4) ? 400'000 : 10'000);
    const SealRecord record = RecordAt(slot * kSlotBytes, size, counter_.fetch_add(1) + 1);
    const uint64_t seed = random_.Next();
    ASSERT_THAT(scene_.Write(channel, record, PatternBytes(size, seed)), IsOk());
    std::erase_if(written_,
                  [&](const Written& w) { return w.record.extent.offset == record.extent.offset; });
    written_.push_back({record, seed});
    gone_ = record.generation;
  }

  void ReadOne(Channel& channel) {
    const Written& one = written_[random_.Below(written_.size())];
    const auto got = scene_.Read(channel, one.record.generation, one.record.extent);
    ASSERT_THAT(got, IsOk());
    EXPECT_TRUE(*got == PatternBytes(one.record.extent.payload_bytes(), one.seed));
  }

  ConformanceScene& scene_;
  const uint64_t index_;
  std::atomic<uint32_t>& counter_;
  Random random_;
  std::vector<Written> written_;
  Generation gone_;
};

void ManyThreadsSeeTheirOwnBytes(ConformanceScene& scene) {
  if (!scene.traits().is_threaded) GTEST_SKIP() << "one thread at a time";
  std::atomic<uint32_t> counter{0};
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < 8; ++i) {
    threads.emplace_back([&scene, &counter, i] { Worker(scene, i, counter).Run(); });
  }
  for (std::thread& thread : threads) thread.join();
}

// Readers race with writers of the same bytes: whatever a reader gets is whole and what it asked
// for, or it is refused.
void ReadersRaceWithWriters(ConformanceScene& scene, bool verify) {
  if (!scene.traits().is_threaded) GTEST_SKIP() << "one thread at a time";
  constexpr size_t kSize = 200'000;
  constexpr uint32_t kRounds = 200;
  std::atomic<uint32_t> newest{0};
  std::thread writer([&] {
    const auto channel = scene.Connect();
    for (uint32_t i = 1; i <= kRounds && channel != nullptr; ++i) {
      EXPECT_THAT(scene.Write(*channel, RecordAt(0, kSize, i), PatternBytes(kSize, i)), IsOk());
      newest.store(i);
    }
    newest.store(kRounds);
  });
  const auto channel = scene.Connect();
  size_t hits = 0;
  std::vector<std::byte> got(kSize);
  while (channel != nullptr && newest.load() < kRounds) {
    const uint32_t wanted = newest.load();
    if (wanted == 0) continue;
    const SealRecord record = RecordAt(0, kSize, wanted);
    ReadOp read = ReadOf(record.generation, record.extent, absl::MakeSpan(got));
    read.verify = verify;
    EXPECT_THAT(channel->Submit(&read), IsOk());
    EXPECT_THAT(scene.Complete(*channel), IsOk());
    if (read.status.ok()) {
      ++hits;
      EXPECT_TRUE(got == PatternBytes(kSize, wanted));
    } else {
      EXPECT_TRUE(absl::IsNotFound(read.status) || (verify && absl::IsDataLoss(read.status)))
          << read.status;
    }
  }
  writer.join();
  testing::Test::RecordProperty("hits", static_cast<int>(hits));
}

void ReadersOfReplacedBytesGetAllOrNothing(ConformanceScene& scene) {
  ReadersRaceWithWriters(scene, /*verify=*/true);
}

void UnverifiedReadersOfReplacedBytesGetAllOrNothing(ConformanceScene& scene) {
  ReadersRaceWithWriters(scene, /*verify=*/false);
}

// With checksums and without, large and small, in one pipeline.
void VerifiedAndUnverifiedReadsMixInOneBatch(ConformanceScene& scene) {
  const auto channel = scene.Connect();
  ASSERT_NE(channel, nullptr);
  constexpr uint32_t kParts = 24;
  std::vector<std::vector<std::byte>> payloads;
  std::vector<SealRecord> records;
  for (uint32_t i = 0; i < kParts; ++i) {
    constexpr size_t kSizes[] = {0, 1, 5'000, 8'192, 60'000, 900'000};
    payloads.push_back(PatternBytes(kSizes[i % std::size(kSizes)], i + 1));
    records.push_back(RecordAt(i << 20, payloads[i].size(), i + 1));
    ASSERT_THAT(scene.Write(*channel, records[i], payloads[i]), IsOk());
  }
  std::deque<ReadOp> reads;
  std::vector<std::vector<std::byte>> got(4 * kParts);
  for (uint32_t i = 0; i < got.size(); ++i) {
    const uint32_t part = i % kParts;
    got[i].resize(payloads[part].size());
    reads.push_back(ReadOf(records[part].generation, records[part].extent, absl::MakeSpan(got[i])));
    reads.back().verify = (i / kParts + i) % 2 == 0;
    if (i % 11 == 0) reads.back().generation = Generation::Of(Term{1}, 999);  // nobody's
    ASSERT_THAT(channel->Submit(&reads.back()), IsOk());
  }
  ASSERT_THAT(scene.Complete(*channel), IsOk());
  for (uint32_t i = 0; i < got.size(); ++i) {
    if (i % 11 == 0) {
      EXPECT_THAT(reads[i].status,
                  Fails(absl::StatusCode::kNotFound, ErrorReason::kStaleGeneration));
    } else {
      EXPECT_THAT(reads[i].status, IsOk()) << i;
      EXPECT_TRUE(got[i] == payloads[i % kParts]) << i;
    }
  }
}

}  // namespace

std::vector<ConformanceCase> TransferCases() {
  return {{"RoundTripsEverySize", RoundTripsEverySize},
          {"BatchesOfHundredsOfOpsComplete", BatchesOfHundredsOfOpsComplete},
          {"ReadsAndWritesMixInOneBatch", ReadsAndWritesMixInOneBatch},
          {"UnverifiedReadSkipsTheChecksumOnly", UnverifiedReadSkipsTheChecksumOnly},
          {"EmptyBatchNeedsNoWaiting", EmptyBatchNeedsNoWaiting},
          {"ManyThreadsSeeTheirOwnBytes", ManyThreadsSeeTheirOwnBytes},
          {"ReadersOfReplacedBytesGetAllOrNothing", ReadersOfReplacedBytesGetAllOrNothing},
          {"UnverifiedReadersOfReplacedBytesGetAllOrNothing",
           UnverifiedReadersOfReplacedBytesGetAllOrNothing},
          {"VerifiedAndUnverifiedReadsMixInOneBatch", VerifiedAndUnverifiedReadsMixInOneBatch}};
}

}  // namespace moonpool::transport
