// The index file of a pool, as a node finds it at its start: made by a node, then spoilt at will,
// or any bytes. Whatever it holds, the node starts: with an empty pool, or with parts that lie in
// the pool, do not overlap, and are described as somebody sealed them; and with a table that works.

#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/checksum.h"
#include "storage_node/journal/table_journal.h"
#include "storage_node/journal/testing/test_table.h"
#include "storage_node/pool/testing/test_pool.h"
#include "tests/fuzz/byte_feed.h"
#include "transport/part_header.h"

namespace moonpool::storage_node {
namespace {

constexpr size_t kCells = 256;
constexpr int kStepsMax = 40;

class Scene {
 public:
  explicit Scene(ByteFeed& feed) : feed_(feed) {}

  void Run() {
    LiveALife();
    const std::vector<std::byte> memory(pool_->base(), pool_->base() + TestPool::kSegmentBytes);
    pool_.reset();
    journal_.reset();
    Spoil();
    auto table = table_.Open();
    if (!table.ok()) {
      MP_CHECK(absl::IsFailedPrecondition(table.status()), "code", table.status().ToString());
      return;
    }
    Adopt(*std::move(table), memory);
    CheckParts();
    // It is a table like any other: what is done now is found by the next life, and no damage is.
    Put(Gen(1, 200), Gen(1, 200), At(0, 256), "after");
    const auto before = pool_->Inventory();
    const std::vector<std::byte> later(pool_->base(), pool_->base() + TestPool::kSegmentBytes);
    pool_.reset();
    journal_.reset();
    auto again = table_.Open();
    MP_CHECK(again.ok(), "opened once and not again", again.status().ToString());
    MP_CHECK(again->damaged() == 0, "damage was left", again->damaged());
    Adopt(*std::move(again), later);
    MP_CHECK(pool_->Inventory() == before, "the next life finds something else");
  }

 private:
  void LiveALife() {
    auto table = table_.Create();
    MP_CHECK(table.ok(), "no table", table.status().ToString());
    journal_ = std::make_unique<TableJournal>(*std::move(table));
    pool_ = std::make_unique<TestPool>(1, ExtentIndexOptions{}, journal_.get());
    pool_->index().NoteTerm(Term{1});
    for (uint32_t step = 1; step <= kStepsMax && feed_.Below(8) != 0; ++step) {
      const Extent extent = At(64 * feed_.Byte(), 64 + feed_.Byte());
      if (feed_.OneIn(4)) {
        const Generation freed[] = {Gen(1, 1 + static_cast<uint32_t>(feed_.Below(step)))};
        pool_->index().Free(freed);
      } else if (feed_.OneIn(4)) {
        // An entry that no index would have made.
        journal_
            ->AppendTaken(Generation{feed_.Number()},
                          At(feed_.Number(), feed_.Number(), feed_.Byte()))
            .IgnoreError();
      } else {
        // Some are copies of what was put before, or of what nobody put here.
        const Generation part = Gen(1, step % 3 == 0 ? step / 2 : step);
        Put(Gen(1, step), part, extent, absl::StrCat("k", feed_.Bytes().substr(0, 300)));
      }
    }
  }

  void Put(Generation claim, Generation part, const Extent& extent, const std::string& key) {
    // Refused where something newer is, or the table is full.
    const absl::Status status =
        claim == part ? pool_->Put(part, extent, key) : pool_->PutCopy(claim, part, extent, key);
    if (status.ok()) sealed_[{part, extent}] = key;
  }

  void Spoil() {
    if (feed_.OneIn(8)) {  // anything, behind a header that fits
      const absl::string_view bytes = feed_.Bytes();
      const size_t room = kCells * kCellBytes - kHeaderCells * kCellBytes;
      std::memcpy(table_.data() + kHeaderCells * kCellBytes, bytes.data(),
                  std::min(room, bytes.size()));
    }
    while (!feed_.empty()) {
      const size_t at = (feed_.Byte() << 8 | feed_.Byte()) % (kCells * kCellBytes);
      table_.data()[at] = static_cast<std::byte>(feed_.Byte());
    }
  }

  void Adopt(RecordTable table, const std::vector<std::byte>& memory) {
    journal_ = std::make_unique<TableJournal>(std::move(table));
    pool_ = std::make_unique<TestPool>(1, ExtentIndexOptions{}, journal_.get());
    std::memcpy(pool_->base(), memory.data(), memory.size());
    RestoreIndex(*journal_, pool_->index());
    pool_->index().SetFloor({});
    pool_->index().NoteTerm(Term{1});
  }

  void CheckParts() {
    uint64_t end = 0;
    for (const transport::SealRecord& record : pool_->Inventory()) {
      MP_CHECK(record.extent.offset >= end, "parts overlap", record.extent.offset);
      end = record.extent.end();
      MP_CHECK(end <= TestPool::kSegmentBytes, "a part outside of the pool", end);
      const auto sealed = sealed_.find({record.generation, record.extent});
      MP_CHECK(sealed != sealed_.end(), "nobody sealed it there", record.generation.value);
      MP_CHECK(sealed->second == record.key, "under another key", record.key);
      MP_CHECK(pool_->IsReadable(record.generation, record.extent), "not readable");
    }
  }

  ByteFeed& feed_;
  TestTable table_{kCells, kCells};
  std::unique_ptr<TableJournal> journal_;
  std::unique_ptr<TestPool> pool_;
  std::map<std::pair<Generation, Extent>, std::string> sealed_;  // the keys
};

}  // namespace
}  // namespace moonpool::storage_node

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  moonpool::ByteFeed feed(data, size);
  moonpool::storage_node::Scene(feed).Run();
  return 0;
}
