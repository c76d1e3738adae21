#include "client_sdk/core/core_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "absl/strings/str_cat.h"
#include "client_sdk/core/testing/fake_pool.h"
#include "common/random.h"
#include "common/testing/status_matchers.h"

namespace moonpool::client {
namespace {

using ::testing::ElementsAre;

class CoreClientTest : public ::testing::Test {
 protected:
  FakePool pool_{{"local1", "n1", "n2"}};
  std::unique_ptr<CoreClient> client_ = pool_.NewClient();
};

// As long as six attempts take, and more; each call begins in a new one.
TEST_F(CoreClientTest, EveryCallOutlastsAnOutageOfTheMaster) {
  const std::vector<std::string> keys = {"k"};
  const auto break_down = [&](absl::string_view method) {
    pool_.master.Fail(method, absl::UnavailableError("restarting"), {.times = 10});
  };
  break_down("OpenNamespace");
  EXPECT_THAT(client_->OpenNamespace("", {}), IsOk());
  break_down("StartPuts");
  break_down("CommitPuts");
  EXPECT_THAT(pool_.Put(*client_, "k", "value"), IsOk());
  break_down("Exists");
  EXPECT_THAT(client_->Exists(keys, {}).front(), IsOk());
  break_down("MatchPrefix");
  EXPECT_THAT(client_->MatchPrefix(keys, {}), IsOk());
  break_down("Locate");
  EXPECT_THAT(pool_.NewClient()->Get("k", {}), IsOk());
  break_down("Remove");
  EXPECT_THAT(client_->Remove(keys, {}).front(), IsOk());
}

TEST_F(CoreClientTest, WhoDoesNotWaitIsToldOfAnOutageButLearnsWhatBecameOfItsPut) {
  const auto client = pool_.NewClient({.wait_for_master = false});
  const absl::Status down = absl::UnavailableError("restarting");
  pool_.master.Fail("OpenNamespace", down, {.times = 10});
  EXPECT_THAT(client->OpenNamespace("", {}), StatusIs(absl::StatusCode::kUnavailable));
  pool_.master.Fail("CommitPuts", down, {.times = 10});
  EXPECT_THAT(pool_.Put(*client, "k", "value"), IsOk());
  pool_.master.Fail("StartPuts", down, {.times = 10});
  EXPECT_THAT(pool_.Put(*client, "l", "value"), StatusIs(absl::StatusCode::kUnavailable));
}

TEST_F(CoreClientTest, WhoDoesNotWaitOutlastsAnElectionAllTheSame) {
  const auto client = pool_.NewClient({.wait_for_master = false});
  const absl::Status electing =
      MakeError(absl::StatusCode::kUnavailable, ErrorReason::kNotLeader, "no master leads");
  pool_.master.Fail("OpenNamespace", electing, {.times = 15});
  const absl::Time begun = pool_.clock.Now();
  EXPECT_THAT(client->OpenNamespace("", {}), IsOk());
  EXPECT_GT(pool_.clock.Now() - begun, absl::Seconds(1));
  pool_.master.Fail("OpenNamespace", electing, {.times = 1000});
  EXPECT_THAT(client->OpenNamespace("", {}),
              Fails(absl::StatusCode::kUnavailable, ErrorReason::kNotLeader));
}

// A master that says nothing takes a while to be called unreachable.
TEST_F(CoreClientTest, WhoDoesNotWaitMakesNoSecondAttemptAfterALongOne) {
  const auto client = pool_.NewClient({.wait_for_master = false});
  pool_.master.Fail("OpenNamespace", absl::UnavailableError("no sign of life"), {.times = 10});
  pool_.master.on_call = [&](absl::string_view) { pool_.clock.Advance(absl::Seconds(2)); };
  EXPECT_THAT(client->OpenNamespace("", {}), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_EQ(pool_.master.calls("OpenNamespace"), 1);
}

TEST_F(CoreClientTest, MatchPrefixStopsAtTheFirstMiss) {
  ASSERT_THAT(pool_.Put(*client_, "a", "1"), IsOk());
  ASSERT_THAT(pool_.Put(*client_, "b", "22"), IsOk());
  ASSERT_THAT(pool_.Put(*client_, "d", "4444"), IsOk());
  ASSERT_OK_AND_ASSIGN(const PrefixMatch match,
                       client_->MatchPrefix({"a", "b", "c", "d"}, {.hold = absl::Seconds(2)}));
  EXPECT_EQ(match.matched, 2u);
  EXPECT_THAT(match.sizes, ElementsAre(1, 2));
  EXPECT_EQ(match.held, absl::Seconds(2));
  EXPECT_THAT(match.miss, Fails(absl::StatusCode::kNotFound, ErrorReason::kNeverStored));
  EXPECT_EQ(DetailOf(match.miss)->key, "c");
}

TEST_F(CoreClientTest, MatchPrefixMakesTheGetsFree) {
  auto writer = pool_.NewClient();
  ASSERT_THAT(pool_.Put(*writer, "a", "1"), IsOk());
  ASSERT_THAT(pool_.Put(*writer, "b", "22"), IsOk());
  ASSERT_OK_AND_ASSIGN(const PrefixMatch match, client_->MatchPrefix({"a", "b"}, {}));
  EXPECT_EQ(match.matched, 2u);
  EXPECT_THAT(match.miss, IsOk());
  EXPECT_EQ(match.held, absl::ZeroDuration());
  EXPECT_THAT(client_->Get("a", {}), IsOk());
  EXPECT_THAT(client_->Get("b", {}), IsOk());
  EXPECT_EQ(client_->stats().master_calls, 1u);
}

TEST_F(CoreClientTest, MatchPrefixOfNothingOrOfBadKeys) {
  ASSERT_OK_AND_ASSIGN(const PrefixMatch none, client_->MatchPrefix({}, {}));
  EXPECT_EQ(none.matched, 0u);
  EXPECT_THAT(client_->MatchPrefix({"a", ""}, {}),
              Fails(absl::StatusCode::kInvalidArgument, ErrorReason::kKeyEmpty));
  EXPECT_EQ(pool_.master.calls(), 0);
}

TEST_F(CoreClientTest, ExistsAnswersPerKey) {
  ASSERT_THAT(pool_.Put(*client_, "a", "1"), IsOk());
  const auto results = client_->Exists({"a", "", "b"}, {});
  EXPECT_THAT(results[0], IsOk());
  EXPECT_THAT(results[1], Fails(absl::StatusCode::kInvalidArgument, ErrorReason::kKeyEmpty));
  EXPECT_THAT(results[2], Fails(absl::StatusCode::kNotFound, ErrorReason::kNeverStored));
}

TEST_F(CoreClientTest, ManyAreReadIntoMemoryOfTheirSizes) {
  ASSERT_THAT(pool_.Put(*client_, "a", "alpha"), IsOk());
  ASSERT_THAT(pool_.Put(*client_, "empty", ""), IsOk());
  ASSERT_THAT(pool_.Put(*client_, "b", "beta"), IsOk());
  const std::vector<std::string> keys = {"a", "absent", "empty", "b", "a"};
  const auto reader = pool_.NewClient();
  for (const bool is_known : {false, true}) {
    std::vector<std::string> values(keys.size());
    const auto results =
        reader->GetMany(keys,
                        [&](size_t index, uint64_t bytes) -> absl::StatusOr<MutableBuffer> {
                          values[index].assign(bytes, '?');
                          return BufferOf(&values[index]);
                        },
                        {});
    EXPECT_THAT(values, ElementsAre("alpha", "", "", "beta", "alpha")) << is_known;
    EXPECT_THAT(results[1], Fails(absl::StatusCode::kNotFound, ErrorReason::kNeverStored));
    EXPECT_EQ(results[2].value_or(99), 0u);
    EXPECT_EQ(results[4].value_or(99), 5u);
  }
}

TEST_F(CoreClientTest, MemoryThatIsNotThereEndsOnlyItsOwnGet) {
  ASSERT_THAT(pool_.Put(*client_, "a", "alpha"), IsOk());
  ASSERT_THAT(pool_.Put(*client_, "b", "beta"), IsOk());
  std::string value(5, '?'), little(3, '?');
  const std::vector<std::string> keys = {"b", "a", "b"};
  const auto results =
      client_->GetMany(keys,
                       [&](size_t index, uint64_t) -> absl::StatusOr<MutableBuffer> {
                         if (index == 0) return absl::ResourceExhaustedError("no memory");
                         return BufferOf(index == 1 ? &value : &little);
                       },
                       {});
  EXPECT_THAT(results[0], StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_EQ(results[1].value_or(99), 5u);
  EXPECT_THAT(results[2], Fails(absl::StatusCode::kInvalidArgument, ErrorReason::kBufferTooShort));
  EXPECT_EQ(value, "alpha");
  EXPECT_EQ(little, "???");
}

TEST_F(CoreClientTest, AGetAllocatesNoMoreThanItMay) {
  client_ = pool_.NewClient({.get_bytes_max = 4});
  ASSERT_THAT(pool_.Put(*client_, "a", "1234"), IsOk());
  ASSERT_THAT(pool_.Put(*client_, "b", "12345"), IsOk());
  EXPECT_THAT(client_->Get("a", {}), IsOk());
  EXPECT_THAT(client_->Get("b", {}),
              Fails(absl::StatusCode::kResourceExhausted, ErrorReason::kLimitReached));
  std::string buffer(5, ' ');
  const GetItem item = {.key = "b", .into = {BufferOf(&buffer)}};
  EXPECT_THAT(client_->GetMany({&item, 1}, {}).front(), IsOk());
}

// Also where nobody would have to be asked, since the location is known or there are no keys.
TEST_F(CoreClientTest, ACallThatIsCancelledBeforehandDoesNothing) {
  pool_.master.placement = {"local1"};
  ASSERT_THAT(pool_.Put(*client_, "k", "value"), IsOk());
  ASSERT_THAT(client_->GetView("k", {}), IsOk());
  const int before = pool_.master.calls();
  CancelSource source;
  source.Cancel();
  const CallOptions call = {.cancel = source.token()};
  const std::vector<std::string> keys = {"k"};
  const auto is_cancelled = Fails(absl::StatusCode::kCancelled, ErrorReason::kCancelledByCaller);
  std::string room(5, '-');
  const GetItem into = {.key = "k", .into = {BufferOf(&room)}};
  EXPECT_THAT(client_->GetMany({&into, 1}, {.call = call}).front(), is_cancelled);
  EXPECT_EQ(room, "-----");
  EXPECT_THAT(client_->Get("k", {.call = call}), is_cancelled);
  EXPECT_THAT(client_->GetView("k", {.call = call}), is_cancelled);
  EXPECT_THAT(client_->GetViewMany(keys, {.call = call}).front(), is_cancelled);
  EXPECT_THAT(pool_.Put(*client_, "l", "value", {.call = call}), is_cancelled);
  EXPECT_THAT(client_->Exists(keys, call).front(), is_cancelled);
  EXPECT_THAT(client_->Describe(keys, call).front(), is_cancelled);
  EXPECT_THAT(client_->MatchPrefix({}, {.call = call}), is_cancelled);
  EXPECT_THAT(client_->ListKeys("", {.call = call}), is_cancelled);
  EXPECT_THAT(client_->Remove(keys, call).front(), is_cancelled);
  EXPECT_EQ(pool_.master.calls(), before);
}

TEST_F(CoreClientTest, RemovedKeysAreForgotten) {
  ASSERT_THAT(pool_.Put(*client_, "a", "1"), IsOk());
  const auto results = client_->Remove({"a", "b"}, {});
  EXPECT_THAT(results[0], IsOk());
  EXPECT_THAT(results[1], StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(client_->Get("a", {}), Fails(absl::StatusCode::kNotFound, ErrorReason::kRemoved));
  EXPECT_EQ(client_->stats().relocated, 0u);
}

TEST_F(CoreClientTest, ErrorsOfACallGoToEveryKey) {
  pool_.master.Fail("Exists", absl::PermissionDeniedError("no"), {.times = 1});
  for (const absl::Status& status : client_->Exists({"a", "b"}, {})) {
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kPermissionDenied));
  }
}

TEST_F(CoreClientTest, OpenNamespaceChecksTheVersion) {
  EXPECT_THAT(client_->OpenNamespace("", {}), IsOk());
  pool_.master.version_major = 9;
  EXPECT_THAT(client_->OpenNamespace("", {}),
              Fails(absl::StatusCode::kFailedPrecondition, ErrorReason::kPeerVersion));
}

TEST_F(CoreClientTest, TheMasterIsToldLessThanTheTimeout) {
  // So that an answer of a call that it held until then still arrives.
  EXPECT_THAT(pool_.Put(*client_, "a", "1", {.call = {.timeout = absl::Milliseconds(1)}}), IsOk());
  EXPECT_THAT(client_->Get("a", {.call = {.timeout = absl::InfiniteDuration()}}), IsOk());
}

// For ThreadSanitizer: one client, many threads, all kinds of calls.
TEST(CoreClientThreads, ShareOneClient) {
  FakePool pool({"local1", "n1", "n2"});
  auto client = pool.NewClient();
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      Random random(t);
      for (int i = 0; i < 200; ++i) {
        const uint64_t id = random.Below(20);
        const std::string key = absl::StrCat("k", id);
        const std::string value = absl::StrCat("value", id);
        switch (random.Below(6)) {
          case 0: client->Remove({key}, {}); break;
          case 1: pool.Put(*client, key, value).IgnoreError(); break;
          case 2: client->GetView(key, {}).status().IgnoreError(); break;
          case 3:
            client->MatchPrefix({key, absl::StrCat("k", id + 1)}, {}).status().IgnoreError();
            break;
          default: {
            const absl::StatusOr<std::string> got = client->Get(key, {});
            if (got.ok()) {
              EXPECT_EQ(*got, value);
            }
          }
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// A master that was restarted takes the first fingerprint that it is told, and knows nothing of
// what the parts hold that it finds.
TEST_F(CoreClientTest, BytesOfAnotherLayoutAreAMiss) {
  pool_.master.placement = {"local1"};
  ASSERT_THAT(client_->OpenNamespace("layout A", {}), IsOk());
  ASSERT_THAT(pool_.Put(*client_, "k", "value of A"), IsOk());
  const std::vector<std::string> keys = {"k"};
  const auto other = pool_.NewClient();
  ASSERT_THAT(other->OpenNamespace("layout B", {}), IsOk());
  const auto unopened = pool_.NewClient();
  for (CoreClient* const reader : {other.get(), unopened.get()}) {
    for (const bool verify : {true, false}) {
      EXPECT_THAT(reader->Get("k", {.verify = verify}), StatusIs(absl::StatusCode::kNotFound));
      EXPECT_THAT(reader->GetView("k", {.verify = verify}), StatusIs(absl::StatusCode::kNotFound));
      ASSERT_OK_AND_ASSIGN(const PrefixMatch match, reader->MatchPrefix(keys, {}));
      ASSERT_EQ(match.matched, 1u) << "its cache knows where the bytes are";
      EXPECT_THAT(reader->Get("k", {.verify = verify}), StatusIs(absl::StatusCode::kNotFound));
      ASSERT_THAT(reader->MatchPrefix(keys, {}), IsOk());
      EXPECT_THAT(reader->GetView("k", {.verify = verify}), StatusIs(absl::StatusCode::kNotFound));
    }
  }
  pool_.master.fingerprint = "layout A";
  const auto same = pool_.NewClient();
  ASSERT_THAT(same->OpenNamespace("layout A", {}), IsOk());
  const auto any = pool_.NewClient();
  ASSERT_THAT(any->OpenNamespace("", {}), IsOk());
  for (CoreClient* const reader : {same.get(), any.get()}) {
    ASSERT_OK_AND_ASSIGN(const std::string value, reader->Get("k", {}));
    EXPECT_EQ(value, "value of A");
    EXPECT_THAT(reader->GetView("k", {}), IsOk());
  }
}

TEST_F(CoreClientTest, AMasterThatOpensAnotherLayoutIsNotBelieved) {
  for (const char* const answer : {"layout B", "layout\nA"}) {
    pool_.master.fingerprint = answer;
    EXPECT_THAT(client_->OpenNamespace("layout A", {}), StatusIs(absl::StatusCode::kInternal));
  }
  EXPECT_THAT(client_->OpenNamespace("", {}), StatusIs(absl::StatusCode::kInternal));
}

TEST_F(CoreClientTest, AMasterThatForgotTheNamespaceIsToldAgain) {
  const std::vector<std::string> keys = {"k"};
  const absl::Status unknown =
      MakeError(absl::StatusCode::kNotFound, ErrorReason::kNamespaceUnknown, "restarted");
  ASSERT_THAT(client_->OpenNamespace("layout A", {}), IsOk());
  pool_.master.Fail("StartPuts", unknown);
  EXPECT_THAT(pool_.Put(*client_, "k", "value"), IsOk());
  EXPECT_EQ(pool_.master.calls("OpenNamespace"), 2);
  pool_.master.Fail("Exists", unknown, {.times = 2});
  EXPECT_THAT(client_->Exists(keys, {}).front(),
              Fails(absl::StatusCode::kNotFound, ErrorReason::kNamespaceUnknown))
      << "once is enough";
  // Another layout was faster.
  pool_.master.Fail("Exists", unknown);
  pool_.master.Fail("OpenNamespace", MakeError(absl::StatusCode::kFailedPrecondition,
                                               ErrorReason::kFingerprintMismatch, "taken"));
  EXPECT_THAT(client_->Exists(keys, {}).front(),
              Fails(absl::StatusCode::kFailedPrecondition, ErrorReason::kFingerprintMismatch));
  const auto nameless = pool_.NewClient();
  pool_.master.Fail("Exists", unknown);
  EXPECT_THAT(nameless->Exists(keys, {}).front(),
              Fails(absl::StatusCode::kNotFound, ErrorReason::kNamespaceUnknown));
}

}  // namespace
}  // namespace moonpool::client
