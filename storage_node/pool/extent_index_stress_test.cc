// Many writers of the same bytes at once: what the ThreadSanitizer build is for.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "common/random.h"
#include "common/testing/status_matchers.h"
#include "storage_node/pool/extent_index.h"
#include "storage_node/pool/testing/test_pool.h"

namespace moonpool::storage_node {
namespace {

constexpr int kWriters = 4;
constexpr int kPutsPerWriter = 400;
constexpr uint64_t kChunk = 256;

// Fills the payload in steps with its own byte, and before each step looks at what it wrote before:
// a byte of somebody else would be a late writer's. ThreadSanitizer finds one that slips through.
class Writer {
 public:
  Writer(TestPool& pool, std::atomic<uint32_t>& counter, uint64_t seed)
      : pool_(pool), counter_(counter), random_(seed) {}

  void Run() {
    for (int put = 0; put < kPutsPerWriter; ++put) PutOnce();
  }
  uint64_t sealed() const { return sealed_; }

 private:
  void PutOnce() {
    const Generation generation = Gen(1, ++counter_);
    const Extent extent = At(random_.Below(16) * 256, 1024 + random_.Below(4) * 256);
    auto claim = pool_.Claim(generation, extent);
    if (!claim.ok()) {
      // A newer one was faster.
      EXPECT_THAT(claim, StatusIs(absl::StatusCode::kFailedPrecondition));
      return;
    }
    const auto fill = static_cast<std::byte>(generation.value);
    if (!Fill(**claim, fill)) return;
    (*claim)->SetWritten();
    transport::SealRecord record = RecordFor(generation, extent, "k");
    record.payload_checksum = ExpectedChecksum(extent, fill);
    if (pool_.index().Seal(record).ok()) ++sealed_;
    if (random_.OneIn(4)) {
      const Generation generations[] = {generation};
      pool_.index().Free(generations);
    }
  }

  static bool Fill(transport::WriteClaim& claim, std::byte fill) {
    const transport::MutableBytes payload = claim.payload();
    for (size_t done = 0; done < payload.size(); done += kChunk) {
      if (!claim.BeginStep()) return false;
      for (size_t i = 0; i < done; ++i) {
        EXPECT_EQ(payload[i], fill) << "somebody else's byte";
        if (payload[i] != fill) break;
      }
      std::memset(payload.data() + done, static_cast<int>(fill),
                  std::min<size_t>(kChunk, payload.size() - done));
      claim.EndStep();
    }
    return true;
  }
  static uint64_t ExpectedChecksum(const Extent& extent, std::byte fill) {
    const std::vector<std::byte> payload(extent.payload_bytes(), fill);
    return Checksum(payload);
  }

  TestPool& pool_;
  std::atomic<uint32_t>& counter_;
  Random random_;
  uint64_t sealed_ = 0;
};

TEST(ExtentIndexStress, NoByteOfALateWriterLands) {
  TestPool pool;
  std::atomic<uint32_t> counter{0};
  std::vector<Writer> writers;
  for (int i = 0; i < kWriters; ++i) writers.emplace_back(pool, counter, uint64_t(i) + 1);
  std::vector<std::thread> threads;
  for (Writer& writer : writers) threads.emplace_back([&writer] { writer.Run(); });
  for (std::thread& thread : threads) thread.join();

  uint64_t sealed = 0;
  for (const Writer& writer : writers) sealed += writer.sealed();
  EXPECT_GT(sealed, 0u);
  for (const auto& record : pool.Inventory()) {
    EXPECT_TRUE(pool.IsReadable(record.generation, record.extent)) << ToString(record.extent);
  }
  EXPECT_EQ(pool.index().stats(0).live_claims, 0u);
}

// Inventory, reports, pins, frees and terms at the same time as puts.
TEST(ExtentIndexStress, EverythingAtOnce) {
  TestPool pool(2, {.seal_reports_max = 64});
  std::atomic<bool> stop{false};
  std::atomic<uint32_t> counter{0};
  std::vector<std::thread> threads;
  for (uint32_t writer = 0; writer < 2; ++writer) {
    threads.emplace_back([&, writer] {
      Random random(writer);
      for (int put = 0; put < 1500; ++put) {
        const Extent extent = At(random.Below(64) * 512, 512 + random.Below(3) * 256,
                                 static_cast<uint32_t>(random.Below(2)));
        (void)pool.Put(Gen(2, ++counter), extent, "k");
      }
      stop = true;
    });
  }
  threads.emplace_back([&] {
    FakeViewer viewer;
    while (!stop) {
      pool.index().AttachViewer(&viewer);
      viewer.Hold(Gen(2, counter));
      for (const auto& record : pool.Inventory(7)) EXPECT_EQ(record.key, "k");
      (void)pool.index().TakeSealReports(10);
      const Generation generations[] = {Gen(2, counter), Gen(2, counter / 2)};
      pool.index().Free(generations);
      pool.index().NoteTerm(Term{2});
      (void)pool.index().stats(0);
      pool.index().DetachViewer(&viewer);
    }
  });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(pool.index().stats(0).live_claims + pool.index().stats(1).live_claims, 0u);
}

}  // namespace
}  // namespace moonpool::storage_node
