// An etcd that speaks TLS, and everybody who is wrong about that.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/testing/status_matchers.h"
#include "tests/etcd/certificates.h"
#include "tests/etcd/etcd_process.h"

namespace moonpool::etcd_tests {
namespace {

using namespace moonpool::master;
using ::testing::HasSubstr;

class EtcdTlsTest : public EtcdTest {
 protected:
  void SetUp() override {
    EtcdTest::SetUp();
    if (IsSkipped()) return;
    if (const std::string why = Certificates::WhyNot(); !why.empty()) GTEST_SKIP() << why;
    certificates_ = std::make_unique<Certificates>();
  }
  void StartEtcd(bool asks_clients) {
    etcd_ = EtcdProcess::Start({.cert = certificates_->server_cert(),
                                .key = certificates_->server_key(),
                                .ca = asks_clients ? certificates_->ca() : ""});
    ASSERT_NE(etcd_, nullptr);
  }
  absl::Status Get(EtcdOptions options) {
    options.endpoints = {etcd_->endpoint()};
    const auto client = Connect(std::move(options));
    if (client == nullptr) return absl::InternalError("no client");
    return Ask(*client, EtcdGet{.key = "x"}, absl::Seconds(5)).status();
  }
  // It listens before it serves.
  bool Serves(const EtcdOptions& options) {
    return Eventually([&] { return Get(options).ok(); });
  }

  std::unique_ptr<Certificates> certificates_;
  std::unique_ptr<EtcdProcess> etcd_;
};

TEST_F(EtcdTlsTest, ItsCaIsAllThatIsNeeded) {
  ASSERT_NO_FATAL_FAILURE(StartEtcd(/*asks_clients=*/false));
  EXPECT_TRUE(Serves({.ca_file = certificates_->ca()}));
}

TEST_F(EtcdTlsTest, AnotherCaIsNamedAsTheCause) {
  ASSERT_NO_FATAL_FAILURE(StartEtcd(/*asks_clients=*/false));
  ASSERT_TRUE(Serves({.ca_file = certificates_->ca()}));
  const Certificates others;
  const absl::Status status = Get({.ca_file = others.ca()});
  EXPECT_THAT(status, Fails(absl::StatusCode::kUnavailable, ErrorReason::kPeerUnreachable));
  EXPECT_THAT(Describe(status), HasSubstr(etcd_->endpoint()));
  EXPECT_THAT(Describe(status), HasSubstr("check the CA file"));
}

TEST_F(EtcdTlsTest, ACertificateOfTheClientIsShownWhereItIsAskedFor) {
  ASSERT_NO_FATAL_FAILURE(StartEtcd(/*asks_clients=*/true));
  EXPECT_TRUE(Serves({.ca_file = certificates_->ca(),
                      .cert_file = certificates_->client_cert(),
                      .key_file = certificates_->client_key()}));
  const absl::Status status = Get({.ca_file = certificates_->ca()});
  EXPECT_THAT(status, Fails(absl::StatusCode::kUnavailable, ErrorReason::kPeerUnreachable));
  EXPECT_THAT(Describe(status), HasSubstr("TLS"));
}

TEST_F(EtcdTlsTest, WhoSpeaksNoTlsIsToldAboutIt) {
  ASSERT_NO_FATAL_FAILURE(StartEtcd(/*asks_clients=*/false));
  ASSERT_TRUE(Serves({.ca_file = certificates_->ca()}));
  const absl::Status status = Get({});
  EXPECT_THAT(status, Fails(absl::StatusCode::kUnavailable, ErrorReason::kPeerUnreachable));
  EXPECT_THAT(Describe(status), HasSubstr("agree on TLS"));
}

TEST_F(EtcdTlsTest, WhoSpeaksTlsToAnEtcdWithoutItIsToldAboutIt) {
  etcd_ = EtcdProcess::Start({});
  ASSERT_NE(etcd_, nullptr);
  ASSERT_TRUE(Serves({}));
  const absl::Status status = Get({.ca_file = certificates_->ca()});
  EXPECT_THAT(status, Fails(absl::StatusCode::kUnavailable, ErrorReason::kPeerUnreachable));
  EXPECT_THAT(Describe(status), HasSubstr("agree on TLS"));
}

TEST_F(EtcdTlsTest, ACertificateForAnotherNameIsNamedAsTheCause) {
  ASSERT_NO_FATAL_FAILURE(StartEtcd(/*asks_clients=*/false));
  ASSERT_TRUE(Serves({.ca_file = certificates_->ca()}));
  const size_t colon = etcd_->endpoint().rfind(':');
  const auto client = Connect({.endpoints = {"localhost" + etcd_->endpoint().substr(colon)},
                               .ca_file = certificates_->ca()});
  ASSERT_NE(client, nullptr);
  const absl::Status status = Ask(*client, EtcdGet{.key = "x"}, absl::Seconds(5)).status();
  EXPECT_THAT(status, Fails(absl::StatusCode::kUnavailable, ErrorReason::kPeerUnreachable));
  EXPECT_THAT(Describe(status), HasSubstr("an endpoint that the certificate names"));
}

TEST_F(EtcdTlsTest, AFileThatIsMissingIsFoundAtTheStart) {
  for (const EtcdOptions& options : {
           EtcdOptions{.endpoints = {"h:1"}, .ca_file = "/no/such/file"},
           EtcdOptions{.endpoints = {"h:1"},
           .ca_file = certificates_->ca(),
           .cert_file = "/no/such/file",
           .key_file = certificates_->client_key()},
       }) {
    const auto client = EtcdClient::Create(options, clock_, log_.logger());
    EXPECT_THAT(client, Fails(absl::StatusCode::kInvalidArgument, ErrorReason::kBadArgument));
    EXPECT_THAT(Describe(client.status()), HasSubstr("/no/such/file"));
  }
}

}  // namespace
}  // namespace moonpool::etcd_tests
