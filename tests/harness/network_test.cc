// Hosts hear each other unless they are cut off. Datagrams, since they are not sent again: what
// arrives first says what was dropped.
#include "tests/harness/network.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <string>

#include "common/testing/status_matchers.h"
#include "common/testing/temp_dir.h"
#include "tests/harness/wait.h"

namespace moonpool::harness {
namespace {

constexpr uint16_t kPort = 7000;  // of hosts that nobody else is on

sockaddr_in AddressOf(const std::string& host) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(kPort);
  inet_pton(AF_INET, host.c_str(), &address.sin_addr);
  return address;
}

class NetworkTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = Network::WhyNot(); !why.empty()) GTEST_SKIP() << why;
    auto network = Network::Create(dir_.path());
    if (absl::IsFailedPrecondition(network.status())) GTEST_SKIP() << network.status();
    ASSERT_THAT(network, IsOk());
    network_ = *std::move(network);
    sockets_.push_back(Open(Network::kSelf));
    for (int i = 0; i < 3; ++i) {
      const auto host = network_->AddHost();
      ASSERT_THAT(host, IsOk());
      sockets_.push_back(Open(*host));
    }
  }

  UniqueFd Open(HostId host) {
    UniqueFd made;
    EXPECT_THAT(network_->On(host,
                             [&] {
                               made = UniqueFd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
                               const sockaddr_in address = AddressOf(network_->AddressOf(host));
                               const auto* any = reinterpret_cast<const sockaddr*>(&address);
                               return bind(made.get(), any, sizeof(address)) == 0
                                          ? absl::OkStatus()
                                          : absl::ErrnoToStatus(errno, "bind");
                             }),
                IsOk());
    return made;
  }
  void Send(HostId from, HostId to, const std::string& word) {
    const sockaddr_in address = AddressOf(network_->AddressOf(to));
    EXPECT_EQ(sendto(sockets_[from].get(), word.data(), word.size(), 0,
                     reinterpret_cast<const sockaddr*>(&address), sizeof(address)),
              static_cast<ssize_t>(word.size()));
  }
  std::string Next(HostId host) {
    pollfd wait = {sockets_[host].get(), POLLIN, 0};
    if (poll(&wait, 1, static_cast<int>(absl::ToInt64Milliseconds(kPatience))) <= 0) return "";
    char word[64];
    const ssize_t size = recv(sockets_[host].get(), word, sizeof(word), 0);
    return size < 0 ? "" : std::string(word, static_cast<size_t>(size));
  }

  const TempDir dir_;
  std::unique_ptr<Network> network_;
  std::vector<UniqueFd> sockets_;  // by host
};

TEST_F(NetworkTest, ACutIsOneWay) {
  ASSERT_THAT(network_->Cut(1, 2), IsOk());
  Send(1, 2, "dropped");
  Send(3, 2, "of another");
  Send(2, 1, "back");
  EXPECT_EQ(Next(2), "of another");
  EXPECT_EQ(Next(1), "back");
  ASSERT_THAT(network_->Mend(1, 2), IsOk());
  Send(1, 2, "mended");
  EXPECT_EQ(Next(2), "mended");
}

TEST_F(NetworkTest, AnIsolatedHostHearsNobodyButThisProcess) {
  ASSERT_THAT(network_->Isolate(1), IsOk());
  Send(2, 1, "dropped");
  Send(1, 3, "dropped");
  Send(Network::kSelf, 1, "heard");
  Send(2, 3, "heard");
  EXPECT_EQ(Next(1), "heard");
  EXPECT_EQ(Next(3), "heard");
  ASSERT_THAT(network_->Rejoin(1), IsOk());
  Send(2, 1, "rejoined");
  EXPECT_EQ(Next(1), "rejoined");
}

TEST_F(NetworkTest, AndNotThisOneWhereItIsSaid) {
  ASSERT_THAT(network_->Isolate(1, Network::Scope::kOthersAndSelf), IsOk());
  Send(Network::kSelf, 1, "dropped");
  Send(1, Network::kSelf, "dropped");
  Send(2, Network::kSelf, "heard");
  EXPECT_EQ(Next(Network::kSelf), "heard");
  ASSERT_THAT(network_->Heal(), IsOk());
  Send(Network::kSelf, 1, "healed");
  Send(1, Network::kSelf, "healed");
  EXPECT_EQ(Next(1), "healed");
  EXPECT_EQ(Next(Network::kSelf), "healed");
}

}  // namespace
}  // namespace moonpool::harness
