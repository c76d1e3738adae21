#include "master/meta/testing/meta_store_conformance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/testing/status_matchers.h"

namespace moonpool::master {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Generous: a test that takes as long has failed.
constexpr absl::Duration kPatience = absl::Seconds(20);

// What became of writes, in the order in which it was said.
class Outcomes {
 public:
  MetaStore::WriteDone Next() {
    return [this, number = begun_++](absl::Status status) {
      absl::MutexLock lock(&mutex_);
      numbers_.push_back(number);
      statuses_.push_back(std::move(status));
    };
  }
  // Waits for as many; fewer when they do not come.
  std::vector<absl::Status> Await(size_t count) {
    absl::MutexLock lock(&mutex_);
    const auto are_there = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return statuses_.size() >= count;
    };
    mutex_.AwaitWithTimeout(absl::Condition(&are_there), kPatience);
    return statuses_;
  }
  std::vector<size_t> order() {
    absl::MutexLock lock(&mutex_);
    return numbers_;
  }

 private:
  size_t begun_ = 0;
  absl::Mutex mutex_;
  std::vector<size_t> numbers_ ABSL_GUARDED_BY(mutex_);
  std::vector<absl::Status> statuses_ ABSL_GUARDED_BY(mutex_);
};

class Scene {
 public:
  explicit Scene(std::unique_ptr<MetaStoreUnderTest> world) : world_(std::move(world)) { Open(); }
  ~Scene() { Close(); }

  MetaStoreUnderTest& world() { return *world_; }
  MetaStore& store() { return *store_; }
  void Close() { store_ = nullptr; }
  void Reopen() {
    Close();
    Open();
  }
  absl::Status Write(MetaBatch batch) {
    Outcomes outcomes;
    store_->Write(std::move(batch), outcomes.Next());
    const std::vector<absl::Status> said = outcomes.Await(1);
    return said.size() == 1 ? said[0] : absl::DeadlineExceededError("not one word of the write");
  }
  std::vector<MetaRecord> Load() {
    auto records = store_->Load(SteadyClock().Now() + kPatience);
    EXPECT_THAT(records, IsOk());
    return records.ok() ? *std::move(records) : std::vector<MetaRecord>{};
  }

 private:
  void Open() {
    auto store = world_->Open();
    ASSERT_THAT(store, IsOk());
    store_ = *std::move(store);
  }

  const std::unique_ptr<MetaStoreUnderTest> world_;
  std::unique_ptr<MetaStore> store_;
};

void ANewStoreIsEmpty(Scene& scene) { EXPECT_THAT(scene.Load(), IsEmpty()); }

void WhatWasWrittenIsFoundByTheNextOneInOrderOfKey(Scene& scene) {
  ASSERT_THAT(scene.Write({{"b", "2"}, {"a/2", "1"}}), IsOk());
  ASSERT_THAT(scene.Write({{"a", ""}, {"c", "3"}}), IsOk());
  const std::vector<MetaRecord> expected = {{"a", ""}, {"a/2", "1"}, {"b", "2"}, {"c", "3"}};
  EXPECT_EQ(scene.Load(), expected);
  scene.Reopen();
  EXPECT_EQ(scene.Load(), expected);
}

void TheLastChangeOfAKeyHolds(Scene& scene) {
  ASSERT_THAT(scene.Write({{"a", "1"}, {"b", "1"}, {"c", "1"}}), IsOk());
  ASSERT_THAT(scene.Write({{"a", "2"}, {"b", std::nullopt}, {"c", std::nullopt}, {"c", "3"}}),
              IsOk());
  scene.Reopen();
  EXPECT_THAT(scene.Load(), ElementsAre(MetaRecord{"a", "2"}, MetaRecord{"c", "3"}));
}

void WhatIsNotThereCanBeDeleted(Scene& scene) {
  ASSERT_THAT(scene.Write({{"a", "1"}}), IsOk());
  EXPECT_THAT(scene.Write({{"b", std::nullopt}}), IsOk());
  EXPECT_THAT(scene.Write({}), IsOk());
  EXPECT_THAT(scene.Load(), ElementsAre(MetaRecord{"a", "1"}));
}

void KeysAndValuesAreAnyBytes(Scene& scene) {
  const std::string zeros(3, '\0');
  const std::string high("\xff\xfe\n=", 4);
  ASSERT_THAT(scene.Write({{high, zeros}, {zeros, high}}), IsOk());
  ASSERT_THAT(scene.Write({{zeros + "x", std::string(1 << 16, 'v')}}), IsOk());
  scene.Reopen();
  EXPECT_THAT(scene.Load(), ElementsAre(MetaRecord{zeros, high},
                                        MetaRecord{zeros + "x", std::string(1 << 16, 'v')},
                                        MetaRecord{high, zeros}));
}

void TheWordComesOnceForEachInOrder(Scene& scene) {
  Outcomes outcomes;
  const size_t count = scene.world().writes_max();
  std::vector<size_t> in_order;
  for (size_t i = 0; i < count; ++i) {
    in_order.push_back(i);
    scene.store().Write({{"last", absl::StrCat(i)}, {absl::StrCat("k", i), "v"}}, outcomes.Next());
  }
  EXPECT_THAT(outcomes.Await(count), Each(IsOk()));
  EXPECT_EQ(outcomes.order(), in_order);
  const std::vector<MetaRecord> records = scene.Load();
  ASSERT_EQ(records.size(), count + 1);
  EXPECT_EQ(records.back(), (MetaRecord{"last", absl::StrCat(count - 1)}));
}

void WritesAreBounded(Scene& scene) {
  scene.world().Hold(scene.store());
  Outcomes outcomes;
  const size_t count = 2 * scene.world().writes_max();
  for (size_t i = 0; i < count; ++i) {
    scene.store().Write({{absl::StrCat("k", i), "v"}}, outcomes.Next());
  }
  const size_t refused = outcomes.Await(0).size();
  EXPECT_GE(refused, count - scene.world().writes_max());
  EXPECT_LT(refused, count);
  EXPECT_THAT(outcomes.Await(0),
              Each(Fails(absl::StatusCode::kResourceExhausted, ErrorReason::kLimitReached)));
  scene.world().Release(scene.store());
  EXPECT_EQ(outcomes.Await(count).size(), count);
  EXPECT_EQ(scene.Load().size(), count - refused) << "those that were refused wrote nothing";
  EXPECT_THAT(scene.Write({{"k", "v"}}), IsOk()) << "there is room again";
}

void TheEndOfTheStoreEndsEveryWrite(Scene& scene) {
  Outcomes outcomes;
  const size_t count = scene.world().writes_max();
  for (size_t i = 0; i < count; ++i) {
    scene.store().Write({{absl::StrCat("k", i), "v"}}, outcomes.Next());
  }
  scene.Close();
  const std::vector<absl::Status> said = outcomes.Await(0);
  ASSERT_EQ(said.size(), count) << "when the destructor has returned";
  scene.Reopen();
  const std::vector<MetaRecord> records = scene.Load();
  for (size_t i = 0; i < count; ++i) {
    const MetaRecord record{absl::StrCat("k", i), "v"};
    if (said[i].ok()) {
      EXPECT_THAT(records, testing::Contains(record));
    }
  }
}

struct Case {
  const char* name;
  void (*run)(Scene& scene);
};
constexpr Case kCases[] = {
    {"ANewStoreIsEmpty", ANewStoreIsEmpty},
    {"WhatWasWrittenIsFoundByTheNextOneInOrderOfKey",
     WhatWasWrittenIsFoundByTheNextOneInOrderOfKey},
    {"TheLastChangeOfAKeyHolds", TheLastChangeOfAKeyHolds},
    {"WhatIsNotThereCanBeDeleted", WhatIsNotThereCanBeDeleted},
    {"KeysAndValuesAreAnyBytes", KeysAndValuesAreAnyBytes},
    {"TheWordComesOnceForEachInOrder", TheWordComesOnceForEachInOrder},
    {"WritesAreBounded", WritesAreBounded},
    {"TheEndOfTheStoreEndsEveryWrite", TheEndOfTheStoreEndsEveryWrite},
};

class RegisteredCase final : public testing::Test {
 public:
  RegisteredCase(MetaStoreFactory factory, void (*run)(Scene&))
      : factory_(std::move(factory)), run_(run) {}
  void TestBody() override {
    Scene scene(factory_());
    if (!HasFatalFailure()) run_(scene);
  }

 private:
  const MetaStoreFactory factory_;
  void (*const run_)(Scene&);
};

}  // namespace

bool RegisterMetaStoreConformance(const std::string& name, MetaStoreFactory factory) {
  const std::string suite = name + "MetaConformance";
  for (const Case& one : kCases) {
    testing::RegisterTest(
        suite.c_str(), one.name, nullptr, nullptr, __FILE__, __LINE__,
        [factory, run = one.run]() -> testing::Test* { return new RegisteredCase(factory, run); });
  }
  return true;
}

}  // namespace moonpool::master
