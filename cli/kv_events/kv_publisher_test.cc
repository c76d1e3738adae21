// Batches over ZeroMQ, and replays of those that were missed.
#include "cli/kv_events/kv_publisher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "cli/kv_events/sequence.h"
#include "common/testing/fake_clock.h"
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
  std::vector<std::string> Receive(absl::Duration within = kPatience) {
    return socket_.Receive(within).value_or(std::vector<std::string>{"nothing"});
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

// More than the sockets and the kernel take for a reader who does not read.
constexpr uint64_t kManyBatches = 3'000;
std::unique_ptr<KvPublisher> StartWithMany(KvReplayOptions replay = {}) {
  auto publisher = Start({.replay_high_water = 4, .replay = std::move(replay)});
  const std::string payload(16 * 1024, 'x');
  for (uint64_t i = 0; i < kManyBatches; ++i) publisher->Publish(payload);
  return publisher;
}

TEST(KvPublisherTest, AReplayOfMoreThanTheSocketTakesGoesOnWhenThereIsRoom) {
  const auto publisher = StartWithMany();
  Reader slow(*publisher);
  slow.Ask(Number(0));
  ASSERT_EQ(slow.Receive().size(), 4);  // his answer is under way
  // Who asks meanwhile does not wait for him.
  Reader other(*publisher);
  other.Ask(Number(kManyBatches - 1));
  EXPECT_THAT(other.Receive(), ElementsAre("", "kv@test", Number(kManyBatches - 1), testing::_));
  EXPECT_THAT(other.Receive(), ElementsAre("", "", kEnd, ""));
  uint64_t last = 0;
  while (true) {
    const std::vector<std::string> frames = slow.Receive();
    ASSERT_EQ(frames.size(), 4);
    if (frames[2] == kEnd) break;
    ASSERT_EQ(SequenceOf(frames[2]), ++last);
  }
  EXPECT_EQ(last, kManyBatches - 1);
}

TEST(KvPublisherTest, WhoAsksAgainGetsTheAnswerToWhatHeAskedLast) {
  const auto publisher = StartWithMany();
  Reader reader(*publisher);
  reader.Ask(Number(0));
  ASSERT_EQ(reader.Receive().size(), 4);  // it is under way, and cannot end before he reads
  reader.Ask(Number(kManyBatches - 1));
  // What was on its way comes first, and the rest of it not at all.
  uint64_t last = 0;
  uint64_t received = 1;
  for (std::vector<std::string> frames = reader.Receive(); frames.at(2) != kEnd;
       frames = reader.Receive()) {
    ASSERT_GT(SequenceOf(frames[2]), std::exchange(last, SequenceOf(frames[2])));
    ++received;
  }
  EXPECT_EQ(last, kManyBatches - 1);
  EXPECT_LT(received, kManyBatches);
  reader.Ask(Number(kManyBatches));
  EXPECT_EQ(reader.Receive().at(2), kEnd);
}

TEST(KvPublisherTest, NobodyWaitsForASnapshotOfAnother) {
  absl::Notification has_begun;
  absl::Notification may_end;
  const auto publisher = Start({.kept = {.first_number = 100, .batches_max = 2},
                                .replay = {.snapshot =
                                               [&](uint64_t) {
                                                 has_begun.Notify();
                                                 may_end.WaitForNotification();
                                                 return std::vector<std::string>{"all"};
                                               },
                                           .cleared = [] { return "cleared"s; }}});
  for (const char* payload : {"a", "b", "c", "d", "e"}) publisher->Publish(payload);
  Reader first(*publisher);
  first.Ask(Number(101));
  // He is sent something before there is any work for him: who cannot be has gone.
  EXPECT_THAT(first.Receive(), ElementsAre("", "kv@test", Number(101), "cleared"));
  has_begun.WaitForNotification();
  Reader other(*publisher);
  other.Ask(Number(104));
  EXPECT_THAT(other.Receive(), ElementsAre("", "kv@test", Number(104), "e"));
  EXPECT_THAT(other.Receive(), ElementsAre("", "", kEnd, ""));
  // One snapshot for all who wait for one: a second would begin twice.
  Reader second(*publisher);
  second.Ask(Number(101));
  EXPECT_THAT(second.Receive(), ElementsAre("", "kv@test", Number(101), "cleared"));
  may_end.Notify();
  for (Reader* reader : {&first, &second}) {
    EXPECT_THAT(reader->Receive(), ElementsAre("", "kv@test", Number(102), "all"));
    EXPECT_THAT(reader->Receive(), ElementsAre("", "kv@test", Number(103), "d"));
    EXPECT_THAT(reader->Receive(), ElementsAre("", "kv@test", Number(104), "e"));
    EXPECT_THAT(reader->Receive(), ElementsAre("", "", kEnd, ""));
  }
}

TEST(KvPublisherTest, WhoReadsNothingMakesRoomForTheNext) {
  FakeClock clock;
  const auto publisher = StartWithMany({.askers_max = 1, .clock = &clock});
  Reader silent(*publisher);
  silent.Ask(Number(0));
  ASSERT_EQ(silent.Receive().size(), 4);  // his answer is under way
  Reader other(*publisher);
  std::vector<std::string> got;
  for (int i = 0; i < 1000 && got.size() != 4; ++i) {
    clock.Advance(absl::Milliseconds(100));
    other.Ask(Number(kManyBatches));
    got = other.Receive(absl::Milliseconds(20));
  }
  EXPECT_THAT(got, ElementsAre("", "", kEnd, ""));
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

TEST(KvPublisherTest, OfAMessageThatIsNoRequestNotAllIsTaken) {
  const ZmqContext context;
  ZmqSocket bound = *ZmqSocket::Bind(context, ZmqSocket::Type::kRouter, "tcp://127.0.0.1:0", {});
  ZmqSocket sender = *ZmqSocket::Connect(context, ZmqSocket::Type::kDealer, bound.endpoint());
  sender.Send(std::vector<absl::string_view>(100'000, "frame"));
  const auto message = bound.Receive(kPatience, 4);
  ASSERT_TRUE(message.has_value());
  EXPECT_THAT(*message, ElementsAre(testing::_, "frame", "frame", "frame", ""));
}

TEST(KvPublisherTest, AFrameThatIsTooLongDoesNotArrive) {
  const ZmqContext context;
  ZmqSocket bound = *ZmqSocket::Bind(context, ZmqSocket::Type::kRouter, "tcp://127.0.0.1:0", {});
  ZmqSocket sender = *ZmqSocket::Connect(context, ZmqSocket::Type::kDealer, bound.endpoint());
  sender.Send({std::string(4'096, 'x')});
  // He is cut off and connects again; what he sends meanwhile may be lost.
  std::optional<std::vector<std::string>> message;
  for (int i = 0; i < 1000 && !message.has_value(); ++i) {
    sender.Send({"short"});
    message = bound.Receive(absl::Milliseconds(20));
  }
  ASSERT_TRUE(message.has_value());
  EXPECT_EQ(message->at(1), "short");
}

TEST(KvPublisherTest, AnEndpointThatIsTakenIsAnError) {
  const auto publisher = Start();
  EXPECT_TRUE(
      absl::IsUnavailable(KvPublisher::Start({.endpoint = publisher->endpoint()}).status()));
}

}  // namespace
}  // namespace moonpool::cli
