// On a fake etcd; tests/etcd runs the conformance suite on a real one as well.
#include "master/meta/etcd_meta_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/notification.h"
#include "common/testing/status_matchers.h"
#include "master/etcd/testing/served_etcd.h"
#include "master/meta/testing/meta_store_conformance.h"

namespace moonpool::master {
namespace {

using ::testing::ElementsAre;
using Fate = ServedEtcd::Fate;

constexpr absl::Duration kPatience = absl::Seconds(20);

// Whoever puts the leader key has a new reign.
Reign TakeOver(ServedEtcd& etcd) {
  EXPECT_THAT(etcd.Apply(EtcdTxn{.success = {EtcdDelete{"/t/leader"}}}), IsOk());
  const auto put =
      etcd.Apply(EtcdTxn{.success = {EtcdPut{.key = "/t/leader", .value = "somebody"}}});
  EXPECT_THAT(put, IsOk());
  return Reign{std::get<EtcdTxnResult>(*put).revision};
}

class EtcdUnderTest final : public MetaStoreUnderTest {
 public:
  static constexpr size_t kWritesMax = 64;
  absl::StatusOr<std::unique_ptr<MetaStore>> Open() override {
    return std::make_unique<EtcdMetaStore>(
        EtcdMetaStoreOptions{.prefix = "/t", .reign = TakeOver(etcd_), .writes_max = kWritesMax},
        etcd_, clock_);
  }
  size_t writes_max() const override { return kWritesMax; }
  void Hold(MetaStore&) override { etcd_.Hold(); }
  void Release(MetaStore&) override { etcd_.Release(); }

 private:
  const SteadyClock clock_ = {};
  ServedEtcd etcd_{clock_};
};

[[maybe_unused]] const bool registered =
    RegisterMetaStoreConformance("FakeEtcd", [] { return std::make_unique<EtcdUnderTest>(); });

class EtcdMetaStoreTest : public ::testing::Test {
 protected:
  void Open() {
    store_ = nullptr;
    store_ = std::make_unique<EtcdMetaStore>(
        EtcdMetaStoreOptions{.prefix = "/t", .reign = TakeOver(etcd_)}, etcd_, clock_);
  }
  static absl::Status Write(MetaStore& store, MetaBatch batch) {
    absl::Notification said;
    absl::Status result;
    store.Write(std::move(batch), [&](absl::Status status) {
      result = std::move(status);
      said.Notify();
    });
    // A write ends by itself, by its timeout.
    said.WaitForNotification();
    return result;
  }
  absl::Status Write(MetaBatch batch) { return Write(*store_, std::move(batch)); }
  std::vector<MetaRecord> Load() {
    auto records = store_->Load(clock_.Now() + kPatience);
    EXPECT_THAT(records, IsOk());
    return records.ok() ? *std::move(records) : std::vector<MetaRecord>{};
  }
  // The next transactions have these fates, those behind them are served.
  void SetFates(std::vector<Fate> fates) {
    auto count = std::make_shared<std::atomic<size_t>>(0);
    etcd_.SetOracle([count, fates](const EtcdRequest& request) {
      if (!std::holds_alternative<EtcdTxn>(request)) return Fate::kServed;
      const size_t i = (*count)++;
      return i < fates.size() ? fates[i] : Fate::kServed;
    });
  }

  const SteadyClock clock_ = {};
  ServedEtcd etcd_{clock_};
  std::unique_ptr<EtcdMetaStore> store_;
};

TEST_F(EtcdMetaStoreTest, AMasterThatWasSupersededWritesNothing) {
  Open();
  ASSERT_THAT(Write({{"a", "1"}}), IsOk());
  EtcdMetaStore next({.prefix = "/t", .reign = TakeOver(etcd_)}, etcd_, clock_);
  EXPECT_THAT(Write({{"a", "2"}}),
              Fails(absl::StatusCode::kFailedPrecondition, ErrorReason::kStaleTerm));
  EXPECT_THAT(Write(next, {{"b", "1"}}), IsOk());
  // Once told it does not even ask.
  etcd_.SetOracle([](const EtcdRequest&) { return Fate::kRefused; });
  EXPECT_THAT(Write({{"a", "2"}}),
              Fails(absl::StatusCode::kFailedPrecondition, ErrorReason::kStaleTerm));
  etcd_.SetOracle({});
  EXPECT_THAT(Load(), ElementsAre(MetaRecord{"a", "1"}, MetaRecord{"b", "1"}));
}

TEST_F(EtcdMetaStoreTest, AReignThatIsOverWithoutASuccessorIsOver) {
  Open();
  ASSERT_THAT(etcd_.Apply(EtcdTxn{.success = {EtcdDelete{"/t/leader"}}}), IsOk());
  EXPECT_THAT(Write({{"a", "1"}}),
              Fails(absl::StatusCode::kFailedPrecondition, ErrorReason::kStaleTerm));
}

TEST_F(EtcdMetaStoreTest, AWriteWhoseAnswerIsLostIsWrittenOnce) {
  Open();
  ASSERT_THAT(Write({{"a", "1"}}), IsOk());
  SetFates({Fate::kLost, Fate::kRefused, Fate::kLost});
  ASSERT_THAT(Write({{"a", "2"}}), IsOk());
  EXPECT_THAT(Write({{"b", "1"}}), IsOk()) << "on top of it";
  EXPECT_THAT(Load(), ElementsAre(MetaRecord{"a", "2"}, MetaRecord{"b", "1"}));
}

// A copy that a network held back must not undo what came after it.
TEST_F(EtcdMetaStoreTest, ALateCopyOfAWriteDoesNothing) {
  Open();
  ASSERT_THAT(Write({{"a", "0"}}), IsOk());
  EtcdRequest copy;
  etcd_.SetOracle([&copy, is_taken = false](const EtcdRequest& request) mutable {
    if (is_taken) return Fate::kServed;
    is_taken = true;
    copy = request;
    return Fate::kRefused;
  });
  ASSERT_THAT(Write({{"a", "1"}}), IsOk()) << "asked again";
  ASSERT_THAT(Write({{"a", "2"}}), IsOk());
  const auto late = etcd_.Apply(copy);
  ASSERT_THAT(late, IsOk());
  EXPECT_FALSE(std::get<EtcdTxnResult>(*late).succeeded);
  EXPECT_THAT(Load(), ElementsAre(MetaRecord{"a", "2"}));
}

TEST_F(EtcdMetaStoreTest, WhetherALostWriteCameBeforeTheEndOfTheReignIsFoundOut) {
  for (const Fate fate : {Fate::kLost, Fate::kRefused}) {
    Open();
    ASSERT_THAT(Write({{"a", "old"}}), IsOk());
    // The answer is lost, and before it is asked again another master takes over.
    auto is_first = std::make_shared<bool>(true);
    absl::Notification is_asked;
    etcd_.SetOracle([&, is_first](const EtcdRequest&) {
      if (!std::exchange(*is_first, false)) return Fate::kServed;
      is_asked.Notify();
      return fate;
    });
    absl::Status result;
    absl::Notification said;
    store_->Write({{"a", "new"}}, [&](absl::Status status) {
      result = std::move(status);
      said.Notify();
    });
    is_asked.WaitForNotification();
    etcd_.Hold();
    TakeOver(etcd_);
    etcd_.Release();
    said.WaitForNotification();
    etcd_.SetOracle({});
    if (fate == Fate::kLost) {
      EXPECT_THAT(result, IsOk());
      EXPECT_THAT(Load(), ElementsAre(MetaRecord{"a", "new"}));
    } else if (result.ok()) {  // it was asked again before the other one came
      EXPECT_THAT(Load(), ElementsAre(MetaRecord{"a", "new"}));
    } else {
      EXPECT_THAT(result, Fails(absl::StatusCode::kFailedPrecondition, ErrorReason::kStaleTerm));
      EXPECT_THAT(Load(), ElementsAre(MetaRecord{"a", "old"}));
    }
  }
}

TEST_F(EtcdMetaStoreTest, AWriteEndsByItsTimeoutAndTheNextOneGoesThrough) {
  store_ = std::make_unique<EtcdMetaStore>(
      EtcdMetaStoreOptions{
          .prefix = "/t", .reign = TakeOver(etcd_), .write_timeout = absl::Milliseconds(100)},
      etcd_, clock_);
  etcd_.SetOracle([](const EtcdRequest&) { return Fate::kRefused; });
  EXPECT_THAT(Write({{"a", "1"}}), StatusIs(absl::StatusCode::kUnavailable));
  // Written, though nobody heard of it: the next one finds another tag than it expects.
  etcd_.SetOracle([](const EtcdRequest&) { return Fate::kLost; });
  EXPECT_THAT(Write({{"b", "1"}}), StatusIs(absl::StatusCode::kUnavailable));
  etcd_.SetOracle({});
  EXPECT_THAT(Write({{"c", "1"}}), IsOk());
  EXPECT_THAT(Load(), ElementsAre(MetaRecord{"b", "1"}, MetaRecord{"c", "1"}));
}

TEST_F(EtcdMetaStoreTest, ABatchIsAsLargeAsATransactionOrRefused) {
  Open();
  MetaBatch batch;
  for (size_t i = 0; i < EtcdMetaStore::kBatchKeysMax; ++i) {
    batch.push_back({absl::StrCat("k", i), "v"});
  }
  EXPECT_THAT(Write(batch), IsOk());
  EXPECT_EQ(Load().size(), batch.size());
  batch.push_back({"one more", "v"});
  EXPECT_THAT(Write(batch), Fails(absl::StatusCode::kInvalidArgument, ErrorReason::kBatchTooLarge));
  EXPECT_THAT(Write({{"k", std::string(EtcdMetaStore::kBatchBytesMax + 1, 'v')}}),
              Fails(absl::StatusCode::kInvalidArgument, ErrorReason::kValueTooLarge));
}

TEST_F(EtcdMetaStoreTest, WritesThatQueueUpGoTogether) {
  Open();
  ASSERT_THAT(Write({{"a", "0"}}), IsOk());
  auto transactions = std::make_shared<std::atomic<int>>(0);
  etcd_.SetOracle([transactions](const EtcdRequest&) {
    ++*transactions;
    return Fate::kServed;
  });
  etcd_.Hold();
  absl::BlockingCounter said(100);
  for (int i = 0; i < 100; ++i) {
    store_->Write({{"last", absl::StrCat(i)}, {absl::StrCat("k", i), "v"}},
                  [&](absl::Status status) {
                    EXPECT_THAT(status, IsOk());
                    said.DecrementCount();
                  });
  }
  etcd_.Release();
  said.Wait();
  EXPECT_LE(*transactions, 4) << "200 changes in transactions of 127, and perhaps one in front";
  EXPECT_EQ(etcd_.Value("/t/meta/last"), "99");
}

TEST_F(EtcdMetaStoreTest, ReadsAllPagesAsTheyWereAtOnce) {
  Open();
  for (int batch = 0; batch < 6; ++batch) {
    MetaBatch changes;
    for (int i = 0; i < 100; ++i) changes.push_back({absl::StrCat("k", batch * 100 + i), "v"});
    ASSERT_THAT(Write(changes), IsOk());
  }
  auto pages = std::make_shared<std::atomic<int>>(0);
  etcd_.SetOracle([pages](const EtcdRequest& request) {
    return std::holds_alternative<EtcdGet>(request) && ++*pages == 2 ? Fate::kRefused
                                                                     : Fate::kServed;
  });
  EXPECT_EQ(Load().size(), 600u);
  EXPECT_EQ(*pages, 4) << "three, and one again";
}

TEST_F(EtcdMetaStoreTest, AReadEndsByItsDeadline) {
  Open();
  etcd_.SetOracle([](const EtcdRequest&) { return Fate::kRefused; });
  EXPECT_THAT(store_->Load(clock_.Now() + absl::Milliseconds(50)),
              StatusIs(absl::StatusCode::kUnavailable));
}

// Of a master that stops, or has lost its reign, while it loads.
TEST_F(EtcdMetaStoreTest, WhoIsCancelledWaitsForNothing) {
  CancelSource source;
  EtcdMetaStore store({.prefix = "/t",
                       .reign = TakeOver(etcd_),
                       .write_timeout = absl::InfiniteDuration(),
                       .cancel = source.token()},
                      etcd_, clock_);
  // Nothing is answered, and then everything is refused.
  etcd_.Hold();
  absl::Notification written;
  absl::Status write;
  store.Write({{.key = "a", .value = "1"}}, [&](absl::Status status) {
    write = std::move(status);
    written.Notify();
  });
  absl::Status load;
  std::thread loading([&] { load = store.Load(absl::InfiniteFuture()).status(); });
  source.Cancel();
  loading.join();
  written.WaitForNotification();
  EXPECT_THAT(load, StatusIs(absl::StatusCode::kCancelled));
  EXPECT_THAT(write, StatusIs(absl::StatusCode::kCancelled));
  etcd_.SetOracle([](const EtcdRequest&) { return Fate::kRefused; });
  etcd_.Release();
  EXPECT_THAT(store.Load(absl::InfiniteFuture()), StatusIs(absl::StatusCode::kCancelled));
  EXPECT_THAT(Write(store, {{.key = "b", .value = "1"}}), StatusIs(absl::StatusCode::kCancelled));
}

}  // namespace
}  // namespace moonpool::master
