#include "master/meta/testing/memory_meta_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "common/testing/status_matchers.h"
#include "master/meta/testing/meta_store_conformance.h"

namespace moonpool::master {
namespace {

class MemoryUnderTest final : public MetaStoreUnderTest {
 public:
  absl::StatusOr<std::unique_ptr<MetaStore>> Open() override {
    return std::make_unique<MemoryMetaStore>(disk_);
  }
  size_t writes_max() const override { return MemoryMetaStore::kWritesMax; }
  void Hold(MetaStore& store) override { static_cast<MemoryMetaStore&>(store).Hold(); }
  void Release(MetaStore& store) override { static_cast<MemoryMetaStore&>(store).Release(); }

 private:
  MemoryDisk disk_;
};

[[maybe_unused]] const bool registered =
    RegisterMetaStoreConformance("Memory", [] { return std::make_unique<MemoryUnderTest>(); });

TEST(MemoryMetaStore, AWriteThatFailsIsNotCarriedOut) {
  MemoryDisk disk;
  int held = 0;
  MemoryMetaStore store(disk, [&] { ++held; });
  absl::Status first = absl::UnknownError("no word");
  absl::Status second = first;
  store.Hold();
  store.Write({{"a", "1"}}, [&](absl::Status status) { first = status; });
  store.Write({{"b", "1"}}, [&](absl::Status status) { second = status; });
  EXPECT_EQ(held, 2);
  store.FinishOne(absl::DataLossError("a test says so"));
  EXPECT_THAT(first, StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_THAT(second, StatusIs(absl::StatusCode::kUnknown)) << "it waits";
  store.Release();
  EXPECT_THAT(second, IsOk());
  store.FailWrites(absl::InternalError("from now on"));
  store.Write({{"c", "1"}}, [&](absl::Status status) { first = status; });
  EXPECT_THAT(first, StatusIs(absl::StatusCode::kInternal));
  EXPECT_EQ(disk, (MemoryDisk{{"b", "1"}}));
}

TEST(MemoryMetaStore, WhatWaitsAtTheEndIsNotCarriedOut) {
  MemoryDisk disk;
  absl::Status outcome;
  {
    MemoryMetaStore store(disk);
    store.Hold();
    store.Write({{"a", "1"}}, [&](absl::Status status) { outcome = status; });
  }
  EXPECT_THAT(outcome, StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_TRUE(disk.empty());
}

}  // namespace
}  // namespace moonpool::master
