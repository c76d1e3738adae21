// An etcd that lets in only whom it knows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "common/testing/status_matchers.h"
#include "tests/etcd/etcd_process.h"

namespace moonpool::etcd_tests {
namespace {

using namespace moonpool::master;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kPassword[] = "correct-horse-battery";

class EtcdLoginTest : public EtcdTest {
 protected:
  void SetUp() override {
    EtcdTest::SetUp();
    if (IsSkipped()) return;
    etcd_ = EtcdProcess::Start({});
    ASSERT_NE(etcd_, nullptr);
    WritePassword(kPassword);
  }
  void WritePassword(const std::string& password) {
    std::ofstream(dir_.path() + "/password") << password << "\n";
  }
  EtcdOptions Options() const {
    return {.endpoints = {etcd_->endpoint()},
            .user = "moonpool",
            .password_file = dir_.path() + "/password"};
  }
  void TurnAuthenticationOn() { etcd_->TurnAuthenticationOn("moonpool", kPassword, "/m/"); }
  void ExpectNoSecret(const absl::Status& status) const {
    EXPECT_THAT(Describe(status), Not(HasSubstr(kPassword)));
    EXPECT_THAT(log_.lines(), Not(Contains(HasSubstr(kPassword))));
  }

  const TempDir dir_;
  std::unique_ptr<EtcdProcess> etcd_;
};

TEST_F(EtcdLoginTest, TheUserIsLetInAndKeptToItsPrefix) {
  TurnAuthenticationOn();
  const auto client = Connect(Options());
  ASSERT_NE(client, nullptr);
  const EtcdTxn put = {.success = {EtcdPut{.key = "/m/k", .value = "v"}}};
  EXPECT_THAT(Ask(*client, put), IsOk());
  EXPECT_THAT(Ask(*client, EtcdGrantLease{absl::Seconds(5)}), IsOk());
  EXPECT_THAT(Ask(*client, EtcdAwaitChange{"/m/k", 1}), IsOk());
  const auto refused = Ask(*client, EtcdGet{.key = "/others"});
  EXPECT_THAT(refused, Fails(absl::StatusCode::kPermissionDenied, ErrorReason::kBadArgument));
  EXPECT_THAT(Describe(refused.status()), HasSubstr("grant-permission"));
  EXPECT_THAT(log_.lines(), Contains(HasSubstr("in the clear")));
  ExpectNoSecret(refused.status());
}

TEST_F(EtcdLoginTest, WhoNamesNoUserIsToldTo) {
  TurnAuthenticationOn();
  const auto client = Connect({.endpoints = {etcd_->endpoint()}});
  ASSERT_NE(client, nullptr);
  const auto refused = Ask(*client, EtcdGet{.key = "/m/k"});
  EXPECT_THAT(refused, Fails(absl::StatusCode::kUnauthenticated, ErrorReason::kBadArgument));
  EXPECT_THAT(Describe(refused.status()), HasSubstr("set a user and its password file"));
}

TEST_F(EtcdLoginTest, AWrongPasswordIsAnErrorThatDoesNotRepeatIt) {
  TurnAuthenticationOn();
  WritePassword("wrong-horse");
  const auto client = Connect(Options());
  ASSERT_NE(client, nullptr);
  const auto refused = Ask(*client, EtcdGet{.key = "/m/k"});
  EXPECT_THAT(refused, Fails(absl::StatusCode::kUnauthenticated, ErrorReason::kBadArgument));
  EXPECT_THAT(Describe(refused.status()), HasSubstr("check the user and the password file"));
  EXPECT_THAT(Describe(refused.status()), Not(HasSubstr("wrong-horse")));
  // The file is read again: nobody has to restart a master.
  WritePassword(kPassword);
  EXPECT_THAT(Ask(*client, EtcdGet{.key = "/m/k"}), IsOk());
}

// etcd's tokens are in its memory only.
TEST_F(EtcdLoginTest, ATokenThatIsRefusedIsRenewed) {
  TurnAuthenticationOn();
  const auto client = Connect(Options());
  ASSERT_NE(client, nullptr);
  ASSERT_THAT(Ask(*client, EtcdGet{.key = "/m/k"}), IsOk());
  etcd_->Kill();
  ASSERT_TRUE(etcd_->Restart());
  // Refused, logged in and asked again within one call; until etcd serves it is UNAVAILABLE.
  absl::Status status;
  EXPECT_TRUE(Eventually([&] {
    status = Ask(*client, EtcdGet{.key = "/m/k"}).status();
    return status.ok() || status.code() != absl::StatusCode::kUnavailable;
  }));
  EXPECT_THAT(status, IsOk());
}

TEST_F(EtcdLoginTest, AuthenticationMayBeTurnedOnLater) {
  const auto client = Connect(Options());
  ASSERT_NE(client, nullptr);
  ASSERT_TRUE(Eventually([&] { return Ask(*client, EtcdGet{.key = "/m/k"}).ok(); }));
  EXPECT_THAT(log_.lines(), Contains(HasSubstr("authentication off")));
  TurnAuthenticationOn();
  EXPECT_THAT(Ask(*client, EtcdGet{.key = "/m/k"}), IsOk());
}

TEST_F(EtcdLoginTest, AMissingPasswordFileIsFoundAtTheStart) {
  EtcdOptions options = Options();
  options.password_file = dir_.path() + "/none";
  const auto client = EtcdClient::Create(options, clock_, log_.logger());
  EXPECT_THAT(client, Fails(absl::StatusCode::kInvalidArgument, ErrorReason::kBadArgument));
  EXPECT_THAT(Describe(client.status()), HasSubstr(options.password_file));
}

}  // namespace
}  // namespace moonpool::etcd_tests
