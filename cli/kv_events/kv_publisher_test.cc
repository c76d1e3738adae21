// Batches over ZeroMQ, and replays of those that were missed.
#include "cli/kv_events/kv_publisher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "common/testing/status_matchers.h"

namespace moonpool::cli {
namespace {

using std::string_literals::operator""s;
using ::testing::ElementsAre;

constexpr absl::Duration kPatience = absl::Seconds(20);
const std::string kEnd(8, '\xff');

std::string Number(uint8_t number) { return std::string(7, '\0') + static_cast<char>(number); }

std::unique_ptr<KvPublisher> Start(KvPublisherOptions options = {}) {
  options.endpoint = options.replay_endpoint = "tcp://127.0.0.1:0";
  if (options.topic.empty()) options.topic = "kv@test";
  auto started = KvPublisher::Start(std::move(options));
  EXPECT_THAT(started, IsOk());
  return *std::move(started);
}

// What a reader gets who has missed everything from `from` on.
class Reader {
 public:
  explicit Reader(const KvPublisher& publisher)
      : socket_(
            *ZmqSocket::Connect(context_, ZmqSocket::Type::kDealer, publisher.replay_endpoint())) {}

  void Ask(const std::string& from) { EXPECT_TRUE(socket_.Send({"", from})); }
  std::vector<std::string> Receive() {
    return socket_.Receive(kPatience).value_or(std::vector<std::string>{"nothing"});
  }

 private:
  const ZmqContext context_;
  ZmqSocket socket_;
};

TEST(KvPublisherTest, ASubscriberGetsTopicNumberAndPayload) {
  const auto publisher = Start();
  const ZmqContext context;
  ZmqSocket subscriber = *ZmqSocket::Connect(context, ZmqSocket::Type::kSub, publisher->endpoint());
  subscriber.Subscribe("kv@");
  // When a subscription has arrived nobody is told: those before it are lost.
  std::optional<std::vector<std::string>> first;
  uint8_t sent = 0;
  while (!first.has_value() && sent < 200) {
    publisher->Publish(absl::StrCat("batch ", sent++));
    first = subscriber.Receive(absl::Milliseconds(20));
  }
  ASSERT_TRUE(first.has_value());
  const auto number = static_cast<uint8_t>(first->at(1)[7]);
  EXPECT_THAT(*first, ElementsAre("kv@test", Number(number), absl::StrCat("batch ", number)));
}

TEST(KvPublisherTest, WhatWasMissedIsSentAgain) {
  const auto publisher = Start();
  for (const char* payload : {"a", "b", "c"}) publisher->Publish(payload);
  Reader reader(*publisher);
  reader.Ask(Number(1));
  EXPECT_THAT(reader.Receive(), ElementsAre("", "kv@test", Number(1), "b"));
  EXPECT_THAT(reader.Receive(), ElementsAre("", "kv@test", Number(2), "c"));
  EXPECT_THAT(reader.Receive(), ElementsAre("", "", kEnd, ""));
  EXPECT_FALSE(publisher->TakeGap());
}

TEST(KvPublisherTest, OlderReadersGetNoTopic) {
  const auto publisher = Start({.replays_topic = false});
  publisher->Publish("a");
  Reader reader(*publisher);
  reader.Ask(Number(0));
  EXPECT_THAT(reader.Receive(), ElementsAre("", Number(0), "a"));
  EXPECT_THAT(reader.Receive(), ElementsAre("", kEnd, ""));
}

TEST(KvPublisherTest, WhatIsNotKeptAnyMoreIsAGap) {
  const auto publisher = Start({.kept_batches = 2});
  for (const char* payload : {"a", "b", "c"}) publisher->Publish(payload);
  Reader reader(*publisher);
  reader.Ask(Number(0));
  EXPECT_THAT(reader.Receive(), ElementsAre("", "kv@test", Number(1), "b"));
  EXPECT_THAT(reader.Receive(), ElementsAre("", "kv@test", Number(2), "c"));
  EXPECT_THAT(reader.Receive(), ElementsAre("", "", kEnd, ""));
  EXPECT_TRUE(publisher->TakeGap());
  EXPECT_FALSE(publisher->TakeGap());
}

TEST(KvPublisherTest, BytesAreBoundedToo) {
  const auto publisher = Start({.kept_bytes = 10});
  for (const char* payload : {"123456", "234567", "3"}) publisher->Publish(payload);
  Reader reader(*publisher);
  reader.Ask(Number(1));
  EXPECT_THAT(reader.Receive(), ElementsAre("", "kv@test", Number(1), "234567"));
}

TEST(KvPublisherTest, WhatIsNoRequestIsPassedOver) {
  const auto publisher = Start();
  publisher->Publish("a");
  Reader reader(*publisher);
  reader.Ask("short");
  reader.Ask(Number(7));  // not yet
  EXPECT_THAT(reader.Receive(), ElementsAre("", "", kEnd, ""));
}

TEST(KvPublisherTest, AnEndpointThatIsTakenIsAnError) {
  const auto publisher = Start();
  EXPECT_TRUE(
      absl::IsUnavailable(KvPublisher::Start({.endpoint = publisher->endpoint()}).status()));
}

}  // namespace
}  // namespace moonpool::cli
