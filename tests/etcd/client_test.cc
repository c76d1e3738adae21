// The client on a real etcd: what the fake claims of it, and what only a network can do.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "common/http/http_server.h"
#include "common/testing/status_matchers.h"
#include "tests/etcd/etcd_process.h"
#include "tests/etcd/silent_port.h"

namespace moonpool::etcd_tests {
namespace {

using namespace moonpool::master;
using ::testing::HasSubstr;

template <typename Answer>
Answer As(const absl::StatusOr<EtcdAnswer>& answer) {
  EXPECT_THAT(answer, IsOk());
  const Answer* held = answer.ok() ? std::get_if<Answer>(&*answer) : nullptr;
  if (held == nullptr) ADD_FAILURE() << "an answer of another kind";
  return held == nullptr ? Answer{} : *held;
}

EtcdTxn Put(const std::string& key, const std::string& value, int64_t lease = 0) {
  return EtcdTxn{.success = {EtcdPut{.key = key, .value = value, .lease = lease}}};
}

class EtcdClientTest : public EtcdTest {
 protected:
  void SetUp() override {
    EtcdTest::SetUp();
    if (IsSkipped()) return;
    etcd_ = EtcdProcess::Start({});
    ASSERT_NE(etcd_, nullptr);
    client_ = Connect({.endpoints = {etcd_->endpoint()}});
    ASSERT_NE(client_, nullptr);
    ASSERT_TRUE(Eventually([this] { return Ask(*client_, EtcdGet{.key = "x"}).ok(); }));
  }

  std::unique_ptr<EtcdProcess> etcd_;
  std::unique_ptr<EtcdClient> client_;
};

TEST_F(EtcdClientTest, ATransactionDoesOneOfTwoThings) {
  const EtcdTxn claim = {.compares = {EtcdCompare::CreatedAt("/t/k", 0)},
                         .success = {EtcdPut{.key = "/t/k", .value = "first"}},
                         .failure = {EtcdGet{.key = "/t/k"}, EtcdGet{.key = "/t/none"}}};
  const auto first = As<EtcdTxnResult>(Ask(*client_, claim));
  EXPECT_TRUE(first.succeeded);
  EXPECT_TRUE(first.ranges.empty());
  const auto second = As<EtcdTxnResult>(Ask(*client_, claim));
  EXPECT_FALSE(second.succeeded);
  ASSERT_EQ(second.ranges.size(), 2u);
  ASSERT_EQ(second.ranges[0].records.size(), 1u);
  EXPECT_EQ(second.ranges[0].records[0].value, "first");
  EXPECT_EQ(second.ranges[0].records[0].create_revision, first.revision);
  EXPECT_TRUE(second.ranges[1].records.empty());

  As<EtcdTxnResult>(Ask(*client_, Put("/t/k", "again")));
  const auto stale = As<EtcdTxnResult>(
      Ask(*client_, EtcdTxn{.compares = {EtcdCompare::ChangedAt("/t/k", first.revision)},
                            .success = {EtcdDelete{"/t/k"}}}));
  EXPECT_FALSE(stale.succeeded);
  const auto owner = As<EtcdTxnResult>(
      Ask(*client_, EtcdTxn{.compares = {EtcdCompare::CreatedAt("/t/k", first.revision)},
                            .success = {EtcdDelete{"/t/k"}}}));
  EXPECT_TRUE(owner.succeeded) << "a put keeps the create revision";
}

TEST_F(EtcdClientTest, ReadsInPagesAtOneRevision) {
  for (int i = 0; i < 5; ++i) As<EtcdTxnResult>(Ask(*client_, Put(absl::StrCat("/p/", i), "v")));
  const EtcdGet all = {.key = "/p/", .range_end = EtcdPrefixEnd("/p/"), .limit = 3};
  const auto first = As<EtcdRange>(Ask(*client_, all));
  ASSERT_EQ(first.records.size(), 3u);
  EXPECT_TRUE(first.has_more);
  As<EtcdTxnResult>(Ask(*client_, Put("/p/9", "later")));
  const auto second = As<EtcdRange>(Ask(*client_, EtcdGet{.key = first.records[2].key + '\0',
                                                          .range_end = all.range_end,
                                                          .limit = 3,
                                                          .revision = first.revision}));
  ASSERT_EQ(second.records.size(), 2u);
  EXPECT_EQ(second.records[1].key, "/p/4");
  EXPECT_FALSE(second.has_more);
  EXPECT_EQ(second.revision, first.revision);
}

TEST_F(EtcdClientTest, AKeyGoesWithItsLease) {
  const auto lease = As<EtcdLease>(Ask(*client_, EtcdGrantLease{absl::Seconds(1)}));
  EXPECT_EQ(lease.ttl, absl::Seconds(2)) << "what etcd's own election timeout allows";
  As<EtcdTxnResult>(Ask(*client_, Put("/t/k", "v", lease.lease)));
  EXPECT_EQ(As<EtcdLease>(Ask(*client_, EtcdKeepAlive{lease.lease})).ttl, lease.ttl);
  const auto held = As<EtcdRange>(Ask(*client_, EtcdGet{.key = "/t/k"}));
  ASSERT_EQ(held.records.size(), 1u);
  EXPECT_EQ(held.records[0].lease, lease.lease);
  As<EtcdDone>(Ask(*client_, EtcdRevokeLease{lease.lease}));
  EXPECT_TRUE(As<EtcdRange>(Ask(*client_, EtcdGet{.key = "/t/k"})).records.empty());

  EXPECT_THAT(Ask(*client_, EtcdKeepAlive{lease.lease}),
              Fails(absl::StatusCode::kNotFound, ErrorReason::kExpired));
  EXPECT_THAT(Ask(*client_, EtcdRevokeLease{lease.lease}),
              Fails(absl::StatusCode::kNotFound, ErrorReason::kExpired));
  EXPECT_THAT(Ask(*client_, Put("/t/k", "v", lease.lease)),
              Fails(absl::StatusCode::kNotFound, ErrorReason::kExpired));
}

TEST_F(EtcdClientTest, AWaitEndsWithThePutTheDeletionOrItsDeadline) {
  const auto put = As<EtcdTxnResult>(Ask(*client_, Put("/t/k", "v")));
  EXPECT_THAT(Ask(*client_, EtcdAwaitChange{"/t/k", put.revision}, absl::Milliseconds(50)),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
  // Already there.
  As<EtcdDone>(Ask(*client_, EtcdAwaitChange{"/t/k", put.revision - 1}));
  const EtcdTxn changes[] = {Put("/t/k", "w"), EtcdTxn{.success = {EtcdDelete{"/t/k"}}}};
  int64_t revision = put.revision;
  for (const EtcdTxn& change : changes) {
    absl::Notification woken;
    client_->Call(EtcdAwaitChange{"/t/k", revision}, kPatience,
                  [&woken](absl::StatusOr<EtcdAnswer> answer) {
                    EXPECT_THAT(answer, IsOk());
                    woken.Notify();
                  });
    As<EtcdTxnResult>(Ask(*client_, Put("/t/other", "v")));
    revision = As<EtcdTxnResult>(Ask(*client_, change)).revision;
    ASSERT_TRUE(woken.WaitForNotificationWithTimeout(kPatience * 2));
  }
}

TEST_F(EtcdClientTest, AMemberThatIsGoneOrSilentIsPassedOver) {
  const SilentPort silent;
  std::string gone;
  {
    const SilentPort former;
    gone = former.endpoint();
  }
  const auto client = Connect({.endpoints = {gone, silent.endpoint(), etcd_->endpoint()}});
  ASSERT_NE(client, nullptr);
  EXPECT_THAT(Ask(*client, EtcdGet{.key = "x"}, absl::Seconds(6)), IsOk());
  // The next call asks first who has answered: the silent one would take up all of its time.
  EXPECT_THAT(Ask(*client, EtcdGrantLease{absl::Seconds(5)}), IsOk());
}

TEST_F(EtcdClientTest, WhenNobodyAnswersTheErrorNamesThemAllAndAWayOut) {
  etcd_->Kill();
  const SilentPort silent;
  const auto client = Connect({.endpoints = {etcd_->endpoint(), silent.endpoint()}});
  ASSERT_NE(client, nullptr);
  const auto answer = Ask(*client, EtcdGet{.key = "x"}, absl::Milliseconds(500));
  EXPECT_EQ(ReasonOf(answer.status()), ErrorReason::kPeerUnreachable);
  const std::string text = Describe(answer.status());
  EXPECT_THAT(text, HasSubstr(etcd_->endpoint()));
  EXPECT_THAT(text, HasSubstr(silent.endpoint()));
  EXPECT_THAT(text, HasSubstr("; check that etcd"));
}

TEST_F(EtcdClientTest, WhatEtcdRefusesIsAskedNowhereElse) {
  const SilentPort silent;
  const auto client = Connect({.endpoints = {etcd_->endpoint(), silent.endpoint()}});
  ASSERT_NE(client, nullptr);
  EtcdTxn twice = Put("/t/k", "v");
  twice.success.push_back(EtcdDelete{"/t/k"});
  const auto answer = Ask(*client, twice);
  EXPECT_THAT(answer, StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(Describe(answer.status()), HasSubstr("duplicate key"));
}

TEST_F(EtcdClientTest, AnEtcdThatComesBackIsUsedAgain) {
  etcd_->Kill();
  EXPECT_THAT(Ask(*client_, EtcdGet{.key = "x"}, absl::Milliseconds(300)),
              StatusIs(absl::StatusCode::kUnavailable));
  ASSERT_TRUE(etcd_->Restart());
  EXPECT_TRUE(Eventually([this] { return Ask(*client_, EtcdGet{.key = "x"}).ok(); }));
}

TEST_F(EtcdClientTest, ACallThatIsUnderWayEndsWithTheClient) {
  absl::Notification ended;
  client_->Call(EtcdAwaitChange{"/t/k", 1}, kPatience, [&ended](absl::StatusOr<EtcdAnswer> answer) {
    EXPECT_THAT(answer, testing::Not(IsOk()));
    ended.Notify();
  });
  client_.reset();
  EXPECT_TRUE(ended.HasBeenNotified());
}

TEST_F(EtcdClientTest, WhatIsNoEtcdIsAnErrorAndNoAnswer) {
  HttpServer web({.listen = "127.0.0.1:0"});
  ASSERT_THAT(web.Start(), IsOk());
  const auto client = Connect({.endpoints = {web.address()}});
  ASSERT_NE(client, nullptr);
  const auto answer = Ask(*client, EtcdGet{.key = "x"}, absl::Seconds(2));
  EXPECT_EQ(ReasonOf(answer.status()), ErrorReason::kPeerUnreachable);
}

}  // namespace
}  // namespace moonpool::etcd_tests
