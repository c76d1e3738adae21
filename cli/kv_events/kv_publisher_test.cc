// Batches over ZeroMQ, and replays of those that were missed.
#include "cli/kv_events/kv_publisher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "cli/kv_events/sequence.h"
#include "common/testing/status_matchers.h"

namespace moonpool::cli {
namespace {

using std::string_literals::operator""s;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr absl::Duration kPatience = absl::Seconds(20);
const std::string kEnd(8, '\xff');

std::string Number(uint64_t number) { return SequenceFrame(number); }

std::unique_ptr<KvPublisher> Start(KvPublisherOptions options = {}) {
  options.endpoint = options.replay_endpoint = "tcp://127.0.0.1:0";
  options.replay.topic = "kv@test";
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

  void Ask(const std::string& from) { EXPECT_EQ(socket_.Send({"", from}), ZmqSocket::Sent::kSent); }
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
  const uint64_t number = SequenceOf(first->at(1));
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
  const auto publisher = Start({.replay = {.sends_topic = false}});
  publisher->Publish("a");
  Reader reader(*publisher);
  reader.Ask(Number(0));
  EXPECT_THAT(reader.Receive(), ElementsAre("", Number(0), "a"));
  EXPECT_THAT(reader.Receive(), ElementsAre("", kEnd, ""));
}

TEST(KvPublisherTest, WhatIsNotKeptAnyMoreIsAGapWhereThereAreNoSnapshots) {
  const auto publisher = Start({.kept = {.batches_max = 2}});
  for (const char* payload : {"a", "b", "c"}) publisher->Publish(payload);
  Reader reader(*publisher);
  reader.Ask(Number(0));
  EXPECT_THAT(reader.Receive(), ElementsAre("", "kv@test", Number(1), "b"));
  EXPECT_THAT(reader.Receive(), ElementsAre("", "kv@test", Number(2), "c"));
  EXPECT_THAT(reader.Receive(), ElementsAre("", "", kEnd, ""));
  EXPECT_TRUE(publisher->TakeGap());
  EXPECT_FALSE(publisher->TakeGap());
}

// A snapshot of what `publisher` has told so far, and what is asked of it.
struct Snapshots {
  std::vector<uint64_t> batches_max = {};
  std::vector<std::string> batches = {"all", "of it"};

  TakeSnapshot Taker() {
    return [this](uint64_t most) {
      batches_max.push_back(most);
      return batches;
    };
  }
};

TEST(KvPublisherTest, WhoMissedTooMuchIsToldAllThatIsStoredAndHeAlone) {
  Snapshots snapshots;
  const auto publisher = Start(
      {.kept = {.first_number = 100, .batches_max = 2}, .replay = {.snapshot = snapshots.Taker()}});
  for (const char* payload : {"a", "b", "c", "d", "e"}) publisher->Publish(payload);
  Reader reader(*publisher);
  reader.Ask(Number(101));
  EXPECT_THAT(reader.Receive(), ElementsAre("", "kv@test", Number(101), "all"));
  EXPECT_THAT(reader.Receive(), ElementsAre("", "kv@test", Number(102), "of it"));
  EXPECT_THAT(reader.Receive(), ElementsAre("", "kv@test", Number(103), "d"));
  EXPECT_THAT(reader.Receive(), ElementsAre("", "kv@test", Number(104), "e"));
  EXPECT_THAT(reader.Receive(), ElementsAre("", "", kEnd, ""));
  EXPECT_THAT(snapshots.batches_max, ElementsAre(4));  // 101 to 104
  EXPECT_FALSE(publisher->TakeGap());
}

TEST(KvPublisherTest, ASnapshotTakesTheNumbersOfWhatItHolds) {
  Snapshots snapshots;
  snapshots.batches = {"1", "2", "3", "4"};
  const auto publisher = Start(
      {.kept = {.first_number = 100, .batches_max = 2}, .replay = {.snapshot = snapshots.Taker()}});
  for (const char* payload : {"a", "b", "c", "d", "e"}) publisher->Publish(payload);
  Reader reader(*publisher);
  reader.Ask(Number(101));
  for (uint64_t i = 0; i < 4; ++i) {
    EXPECT_THAT(reader.Receive(),
                ElementsAre("", "kv@test", Number(101 + i), snapshots.batches[i]));
  }
  EXPECT_THAT(reader.Receive(), ElementsAre("", "", kEnd, ""));
}

TEST(KvPublisherTest, ASnapshotThatWasOvertakenIsTakenAgain) {
  KvPublisher* raw = nullptr;
  int taken = 0;
  const auto publisher = Start({.kept = {.first_number = 100, .batches_max = 1},
                                .replay = {.snapshot = [&](uint64_t) {
                                  // What happens meanwhile is more than is kept.
                                  if (++taken == 1) {
                                    raw->Publish("c");
                                    raw->Publish("d");
                                  }
                                  return std::vector<std::string>{absl::StrCat("all ", taken)};
                                }}});
  raw = publisher.get();
  publisher->Publish("a");
  publisher->Publish("b");
  Reader reader(*publisher);
  reader.Ask(Number(0));
  EXPECT_THAT(reader.Receive(), ElementsAre("", "kv@test", Number(0), "all 1"));
  EXPECT_THAT(reader.Receive(), ElementsAre("", "kv@test", Number(1), "all 2"));
  EXPECT_THAT(reader.Receive(), ElementsAre("", "kv@test", Number(103), "d"));
  EXPECT_THAT(reader.Receive(), ElementsAre("", "", kEnd, ""));
}

TEST(KvPublisherTest, WhoCannotHaveASnapshotHasAllToldAnew) {
  const auto publisher =
      Start({.kept = {.first_number = 100, .batches_max = 1},
             .replay = {.snapshot = [](uint64_t) { return absl::UnavailableError("no master"); }}});
  publisher->Publish("a");
  publisher->Publish("b");
  Reader reader(*publisher);
  reader.Ask(Number(0));
  EXPECT_THAT(reader.Receive(), ElementsAre("", "kv@test", Number(101), "b"));
  EXPECT_THAT(reader.Receive(), ElementsAre("", "", kEnd, ""));
  EXPECT_TRUE(publisher->TakeGap());
}

TEST(KvPublisherTest, WhoKnowsAFormerLifeGetsAllOfThisOne) {
  Snapshots snapshots;
  const auto publisher =
      Start({.kept = {.first_number = 1'000'000}, .replay = {.snapshot = snapshots.Taker()}});
  publisher->Publish("cleared, and all");
  publisher->Publish("b");
  Reader reader(*publisher);
  reader.Ask(Number(17));
  EXPECT_THAT(reader.Receive(), ElementsAre("", "kv@test", Number(1'000'000), "cleared, and all"));
  EXPECT_THAT(reader.Receive(), ElementsAre("", "kv@test", Number(1'000'001), "b"));
  EXPECT_THAT(reader.Receive(), ElementsAre("", "", kEnd, ""));
  EXPECT_THAT(snapshots.batches_max, IsEmpty());
}

TEST(KvPublisherTest, ALiveSubscriberSeesARestartAsAGap) {
  const ZmqContext context;
  std::string endpoint;
  std::string last;
  std::optional<ZmqSocket> subscriber;
  const auto hear = [&](KvPublisher& publisher) {
    // When a (new) connection is there nobody is told: batches before it are lost.
    std::optional<std::vector<std::string>> heard;
    for (int i = 0; i < 1000 && !heard.has_value(); ++i) {
      publisher.Publish("batch");
      heard = subscriber->Receive(absl::Milliseconds(20));
    }
    return heard.value_or(std::vector<std::string>{"", ""})[1];
  };
  {
    const auto before = Start({.kept = {.first_number = 5'000}});
    endpoint = before->endpoint();
    subscriber = *ZmqSocket::Connect(context, ZmqSocket::Type::kSub, endpoint);
    subscriber->Subscribe("kv@");
    last = hear(*before);
    ASSERT_GE(SequenceOf(last), 5'000);
  }
  auto after = KvPublisher::Start({.endpoint = endpoint,
                                   .replay_endpoint = "tcp://127.0.0.1:0",
                                   .kept = {.first_number = 9'000'000},
                                   .replay = {.topic = "kv@test"}});
  ASSERT_THAT(after, IsOk());
  std::string first = hear(**after);
  while (SequenceOf(first) < 9'000'000) first = hear(**after);  // of before, on its way
  EXPECT_GT(SequenceOf(first), SequenceOf(last) + 1);
  Reader reader(**after);
  reader.Ask(Number(SequenceOf(last) + 1));
  EXPECT_THAT(reader.Receive(), ElementsAre("", "kv@test", Number(9'000'000), "batch"));
}

TEST(KvPublisherTest, AReplayOfMoreThanTheSocketTakesGoesOnWhenThereIsRoom) {
  constexpr uint64_t kBatches = 3'000;
  const auto publisher = Start({.high_water = 100});
  const std::string payload(16 * 1024, 'x');  // together more than the kernel takes for a reader
  for (uint64_t i = 0; i < kBatches; ++i) publisher->Publish(payload);
  Reader slow(*publisher);
  slow.Ask(Number(0));
  ASSERT_EQ(slow.Receive().size(), 4);  // his answer is under way
  // Who asks meanwhile does not wait for him.
  Reader other(*publisher);
  other.Ask(Number(kBatches - 1));
  EXPECT_THAT(other.Receive(), ElementsAre("", "kv@test", Number(kBatches - 1), payload));
  EXPECT_THAT(other.Receive(), ElementsAre("", "", kEnd, ""));
  uint64_t last = 0;
  while (true) {
    const std::vector<std::string> frames = slow.Receive();
    ASSERT_EQ(frames.size(), 4);
    if (frames[2] == kEnd) break;
    ASSERT_EQ(SequenceOf(frames[2]), ++last);
  }
  EXPECT_EQ(last, kBatches - 1);
}

TEST(KvPublisherTest, WhoAsksTwiceGetsOneAnswerAfterTheOther) {
  const auto publisher = Start();
  for (const char* payload : {"a", "b"}) publisher->Publish(payload);
  Reader reader(*publisher);
  reader.Ask(Number(0));
  reader.Ask(Number(1));
  EXPECT_THAT(reader.Receive(), ElementsAre("", "kv@test", Number(0), "a"));
  EXPECT_THAT(reader.Receive(), ElementsAre("", "kv@test", Number(1), "b"));
  EXPECT_THAT(reader.Receive(), ElementsAre("", "", kEnd, ""));
  EXPECT_THAT(reader.Receive(), ElementsAre("", "kv@test", Number(1), "b"));
  EXPECT_THAT(reader.Receive(), ElementsAre("", "", kEnd, ""));
}

TEST(KvPublisherTest, BytesAreBoundedToo) {
  const auto publisher = Start({.kept = {.bytes_max = 10}});
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
