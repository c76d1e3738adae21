#include "master/meta/rocks_meta_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/log.h"
#include "common/testing/status_matchers.h"
#include "common/testing/temp_dir.h"
#include "master/meta/testing/meta_store_conformance.h"

namespace moonpool::master {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr absl::Duration kPatience = absl::Seconds(20);
constexpr size_t kWritesMax = 16;

class RocksUnderTest final : public MetaStoreUnderTest {
 public:
  absl::StatusOr<std::unique_ptr<MetaStore>> Open() override {
    return RocksMetaStore::Open({.dir = dir_.path() + "/meta", .writes_max = kWritesMax},
                                {clock_, Logger::Null()});
  }
  size_t writes_max() const override { return kWritesMax; }
  // The thread that writes is busy with the word of a write.
  void Hold(MetaStore& store) override {
    absl::Notification is_held;
    store.Write({}, [&](const absl::Status&) {
      is_held.Notify();
      release_.WaitForNotificationWithTimeout(kPatience);
    });
    EXPECT_TRUE(is_held.WaitForNotificationWithTimeout(kPatience));
  }
  void Release(MetaStore&) override { release_.Notify(); }

 private:
  const TempDir dir_;
  const SteadyClock clock_ = {};
  absl::Notification release_;
};

[[maybe_unused]] const bool registered =
    RegisterMetaStoreConformance("Rocks", [] { return std::make_unique<RocksUnderTest>(); });

class RocksStore : public testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<RocksMetaStore>> Open() {
    return RocksMetaStore::Open({.dir = path()}, {clock_, Logger::Null()});
  }
  std::string path() const { return dir_.path() + "/meta"; }

  static absl::Status Write(MetaStore& store, MetaBatch batch) {
    absl::Notification is_done;
    absl::Status outcome;
    store.Write(std::move(batch), [&](absl::Status status) {
      outcome = std::move(status);
      is_done.Notify();
    });
    EXPECT_TRUE(is_done.WaitForNotificationWithTimeout(kPatience));
    return outcome;
  }
  absl::StatusOr<std::vector<MetaRecord>> Load(MetaStore& store) {
    return store.Load(clock_.Now() + kPatience);
  }
  // A store with two records, "a" before "b", that nobody has open.
  void Fill() {
    auto store = Open();
    ASSERT_THAT(store, IsOk());
    ASSERT_THAT(Write(**store, {{"a", std::string(100, 'a')}}), IsOk());
    ASSERT_THAT(Write(**store, {{"b", std::string(100, 'b')}}), IsOk());
  }
  // What stands in the log goes to a table when a store is opened.
  void MoveToTable() { ASSERT_THAT(Open(), IsOk()); }

  // The largest file whose name begins and ends like this.
  std::filesystem::path FileLike(const std::string& begin, const std::string& end) const {
    std::filesystem::path found;
    for (const auto& entry : std::filesystem::directory_iterator(path())) {
      const std::string name = entry.path().filename().string();
      const bool is_like = absl::StartsWith(name, begin) && absl::EndsWith(name, end);
      if (is_like && (found.empty() || entry.file_size() > std::filesystem::file_size(found))) {
        found = entry.path();
      }
    }
    EXPECT_FALSE(found.empty()) << begin << "*" << end;
    return found;
  }
  static void FlipByte(const std::filesystem::path& path, uint64_t offset) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(offset));
    const auto byte = static_cast<char>(file.get());
    file.seekp(static_cast<std::streamoff>(offset));
    file.put(static_cast<char>(~byte));
    ASSERT_TRUE(file.good());
  }
  // Opening it, or reading it, says that it is broken.
  void ExpectBroken() {
    auto store = Open();
    const absl::Status status = store.ok() ? Load(**store).status() : store.status();
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kDataLoss));
    EXPECT_THAT(Describe(status), HasSubstr("restore the folder from a backup"));
    EXPECT_THAT(Describe(status), HasSubstr(path()));
  }

  const TempDir dir_;
  const SteadyClock clock_ = {};
};

TEST_F(RocksStore, IsOpenInOneProcessOnly) {
  const auto first = Open();
  ASSERT_THAT(first, IsOk());
  const auto second = Open();
  EXPECT_THAT(second, StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(Describe(second.status()), HasSubstr("stop the other master"));
}

TEST_F(RocksStore, AFolderThatCannotBeWrittenToIsNotCalledInUse) {
  ASSERT_THAT(Open(), IsOk());
  // What stops root, too.
  std::filesystem::remove(path() + "/LOCK");
  std::filesystem::create_directory(path() + "/LOCK");
  const auto store = Open();
  EXPECT_THAT(store, StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(Describe(store.status()), HasSubstr("cannot be written to"));
  EXPECT_THAT(Describe(store.status()), HasSubstr("give the folder to the user"));
}

TEST_F(RocksStore, AWriteThatACrashCutOffIsNothing) {
  Fill();
  const std::filesystem::path log = FileLike("", ".log");
  std::filesystem::resize_file(log, std::filesystem::file_size(log) - 1);
  const auto store = Open();
  ASSERT_THAT(store, IsOk());
  const auto records = Load(**store);
  ASSERT_THAT(records, IsOk());
  EXPECT_THAT(*records, ElementsAre(MetaRecord{"a", std::string(100, 'a')}));
}

TEST_F(RocksStore, ABrokenLogIsNoReasonToForgetWhatComesAfterIt) {
  Fill();
  FlipByte(FileLike("", ".log"), 50);
  ExpectBroken();
}

TEST_F(RocksStore, ABrokenTableIsFound) {
  Fill();
  MoveToTable();
  FlipByte(FileLike("", ".sst"), 50);
  ExpectBroken();
}

TEST_F(RocksStore, ABrokenManifestIsFound) {
  Fill();
  MoveToTable();
  FlipByte(FileLike("MANIFEST-", ""), 30);
  ExpectBroken();
}

TEST_F(RocksStore, AMissingTableIsFound) {
  Fill();
  MoveToTable();
  std::filesystem::remove(FileLike("", ".sst"));
  ExpectBroken();
}

// RocksDB itself would begin an empty store.
TEST_F(RocksStore, AMissingManifestIsNotAnEmptyStore) {
  Fill();
  std::filesystem::remove(path() + "/CURRENT");
  ExpectBroken();
}

TEST_F(RocksStore, IsNotMadeAmongOtherFiles) {
  std::filesystem::create_directory(path());
  std::ofstream(path() + "/letter.txt") << "x";
  const auto store = Open();
  EXPECT_THAT(store, Fails(absl::StatusCode::kInvalidArgument, ErrorReason::kBadArgument));
  EXPECT_THAT(Describe(store.status()), HasSubstr("letter.txt"));
  EXPECT_THAT(RocksMetaStore::Open({.dir = path() + "/letter.txt"}, {clock_, Logger::Null()}),
              Fails(absl::StatusCode::kInvalidArgument, ErrorReason::kBadArgument));
}

TEST_F(RocksStore, IsReadUntilTheDeadline) {
  Fill();
  const auto store = Open();
  ASSERT_THAT(store, IsOk());
  EXPECT_THAT((*store)->Load(clock_.Now()),
              Fails(absl::StatusCode::kDeadlineExceeded, ErrorReason::kDeadline));
}

// Files may not grow, as on a full disk: writes fail one by one, and go on when they may again.
TEST_F(RocksStore, AWriteThatTheDiskRefusesIsTriedAgain) {
  Fill();
  const auto store = Open();
  ASSERT_THAT(store, IsOk());
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto ignored = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit tight{.rlim_cur = 8 << 10, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &tight), 0);
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(Write(**store, {{absl::StrCat("large", i), std::string(16 << 10, 'x')}}),
                StatusIs(absl::StatusCode::kUnavailable));
  }
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, ignored);
  ASSERT_THAT(Write(**store, {{"c", "1"}}), IsOk());
  const auto records = Load(**store);
  ASSERT_THAT(records, IsOk());
  EXPECT_THAT(*records, SizeIs(3)) << "none is lost, and none of those that were cut off is there";
}

}  // namespace
}  // namespace moonpool::master
