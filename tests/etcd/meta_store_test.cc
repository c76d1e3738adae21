// The durable state in a real etcd.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "absl/synchronization/notification.h"
#include "common/testing/status_matchers.h"
#include "master/meta/etcd_meta_store.h"
#include "master/meta/testing/meta_store_conformance.h"
#include "tests/etcd/etcd_process.h"

namespace moonpool::etcd_tests {
namespace {

using namespace moonpool::master;

class EtcdUnderTest final : public MetaStoreUnderTest {
 public:
  static constexpr size_t kWritesMax = 64;

  EtcdUnderTest() : etcd_(EtcdProcess::Start({})) {
    if (etcd_ == nullptr) return;
    auto client = EtcdClient::Create({.endpoints = {etcd_->endpoint()}}, clock_, log_.logger());
    if (client.ok()) client_ = *std::move(client);
  }
  absl::StatusOr<std::unique_ptr<MetaStore>> Open() override {
    if (client_ == nullptr) return absl::UnavailableError("no etcd");
    const EtcdTxn take_over = {.success = {EtcdPut{.key = "/t/leader", .value = "somebody"}}};
    absl::StatusOr<EtcdAnswer> answer;
    // It listens before it serves.
    Eventually([&] {
      (void)Ask(*client_, EtcdTxn{.success = {EtcdDelete{"/t/leader"}}});
      answer = Ask(*client_, take_over);
      return answer.ok();
    });
    if (!answer.ok()) return answer.status();
    const Reign reign{std::get<EtcdTxnResult>(*answer).revision};
    return std::make_unique<EtcdMetaStore>(
        EtcdMetaStoreOptions{.prefix = "/t", .reign = reign, .writes_max = kWritesMax}, *client_,
        clock_);
  }
  size_t writes_max() const override { return kWritesMax; }
  void Hold(MetaStore&) override { etcd_->Signal(SIGSTOP); }
  void Release(MetaStore&) override { etcd_->Signal(SIGCONT); }

 private:
  const SteadyClock clock_ = {};
  TestLogger log_;
  std::unique_ptr<EtcdProcess> etcd_;
  std::unique_ptr<EtcdClient> client_;
};

// Registered only where they can run; the case below says that they cannot.
[[maybe_unused]] const bool registered =
    EtcdProcess::WhyNot().empty() &&
    RegisterMetaStoreConformance("Etcd", [] { return std::make_unique<EtcdUnderTest>(); });

class EtcdMetaStoreLimitsTest : public EtcdTest {};

TEST_F(EtcdMetaStoreLimitsTest, TheLargestBatchesFitIntoATransaction) {
  EtcdUnderTest world;
  auto store = world.Open();
  ASSERT_THAT(store, IsOk());
  const auto write = [&store](MetaBatch batch) {
    absl::Notification said;
    absl::Status result;
    (*store)->Write(std::move(batch), [&](absl::Status status) {
      result = std::move(status);
      said.Notify();
    });
    said.WaitForNotification();  // a write ends by itself, by its timeout
    return result;
  };
  MetaBatch many;
  for (size_t i = 0; i < EtcdMetaStore::kBatchKeysMax; ++i) {
    many.push_back({"k" + std::to_string(i), "v"});
  }
  EXPECT_THAT(write(many), IsOk());
  const MetaBatch large = {{"k", std::string(EtcdMetaStore::kBatchBytesMax - 1, 'v')}};
  EXPECT_THAT(write(large), IsOk());
  const auto records = (*store)->Load(clock_.Now() + kPatience);
  ASSERT_THAT(records, IsOk());
  EXPECT_EQ(records->size(), many.size() + 1);
}

}  // namespace
}  // namespace moonpool::etcd_tests
