// Calls that wait: for space, for another writer, for the confirmation of a removal.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <string>
#include <vector>

#include "master/handlers/handlers.h"
#include "master/handlers/handlers_fixture.h"

namespace moonpool::master {
namespace {

// One node, filled by grants that nobody commits: nothing can be evicted.
class WaitingTest : public HandlersFixture {
 protected:
  explicit WaitingTest(HandlersOptions options = {}) : HandlersFixture(options) {}

  static constexpr uint64_t kObject = kMiB - kPartHeaderBytes;

  void FillWithGrants(int count) {
    AddNode("n1", static_cast<uint64_t>(count) * kMiB);
    for (int i = 0; i < count; ++i) {
      held.push_back(Grant(absl::StrCat("held", i), kObject));
    }
  }
  v1::StartPutsRequest WaitingPut(std::string key, uint64_t size_bytes = kObject,
                                  absl::Duration timeout = absl::Seconds(10)) {
    v1::StartPutsRequest request = PutRequest({std::move(key)}, size_bytes, timeout);
    request.set_wait_for_space(true);
    return request;
  }

  std::vector<v1::Grant> held;
};

TEST_F(WaitingTest, APutIsGrantedWhenSpaceIsFreed) {
  FillWithGrants(2);
  Answer<v1::StartPutsResponse> put;
  const CallId call = handlers.StartPuts(WaitingPut("x"), now, put.done());
  EXPECT_NE(call, CallId{});
  EXPECT_EQ(put.count, 0);
  EXPECT_EQ(handlers.waiter_count(), 1u);
  Advance(absl::Seconds(2));
  EXPECT_EQ(put.count, 0);

  Abort(held[0]);
  ASSERT_TRUE(put.is_there());
  ASSERT_THAT(put.status, IsOk());
  ASSERT_TRUE(put.response.results(0).has_grant());
  EXPECT_EQ(handlers.waiter_count(), 0u);
  // The client counts from when it sent the request, two seconds ago.
  EXPECT_EQ(put.response.results(0).grant().deadline_ms(), 12'000u);
}

TEST_F(WaitingTest, WithoutAskingNobodyWaits) {
  FillWithGrants(1);
  Answer<v1::StartPutsResponse> put;
  handlers.StartPuts(PutRequest({"x"}, kObject), now, put.done());
  ASSERT_TRUE(put.is_there());
  EXPECT_EQ(WireReason(put.response.results(0).status()), ErrorReason::kNoSpace);
}

TEST_F(WaitingTest, TheWaitEndsALittleBeforeTheCallerGivesUp) {
  FillWithGrants(1);
  Answer<v1::StartPutsResponse> put;
  handlers.StartPuts(WaitingPut("x", kObject, absl::Seconds(2)), now, put.done());
  EXPECT_LE(handlers.NextWakeup(), now + absl::Seconds(2));
  Advance(absl::Milliseconds(1940));
  EXPECT_EQ(put.count, 0);
  Advance(absl::Milliseconds(20));
  ASSERT_TRUE(put.is_there());
  ASSERT_THAT(put.status, IsOk());
  EXPECT_EQ(WireReason(put.response.results(0).status()), ErrorReason::kNoSpace);
  EXPECT_EQ(handlers.counts().waits_expired, 1u);
}

TEST_F(WaitingTest, CancellationGivesBackWhatWasGranted) {
  FillWithGrants(2);
  Abort(held[1]);
  // Two keys, room for one: that one is granted while the call waits.
  v1::StartPutsRequest request = PutRequest({"x", "y"}, kObject);
  request.set_wait_for_space(true);
  Answer<v1::StartPutsResponse> put;
  const CallId call = handlers.StartPuts(request, now, put.done());
  EXPECT_EQ(put.count, 0);
  handlers.Cancel(call, now);
  ASSERT_TRUE(put.is_there());
  EXPECT_THAT(put.status, Fails(absl::StatusCode::kCancelled, ErrorReason::kCancelledByCaller));
  Grant("z", kObject);         // fits again
  handlers.Cancel(call, now);  // nothing
  EXPECT_EQ(put.count, 1);
  EXPECT_THAT(core.CheckInvariants(), IsOk());
}

TEST_F(WaitingTest, SpaceGoesToTheOldestFirst) {
  FillWithGrants(3);
  std::deque<Answer<v1::StartPutsResponse>> puts(3);
  for (int i = 0; i < 3; ++i) {
    handlers.StartPuts(WaitingPut(absl::StrCat("x", i)), now, puts[static_cast<size_t>(i)].done());
  }
  Abort(held[0]);
  EXPECT_TRUE(puts[0].is_there());
  EXPECT_EQ(puts[1].count, 0);
  Abort(held[1]);
  EXPECT_TRUE(puts[1].is_there());
  EXPECT_EQ(puts[2].count, 0);
  Abort(held[2]);
  EXPECT_TRUE(puts[2].is_there());
}

TEST_F(WaitingTest, ALargePutIsNotStarvedBySmallOnesAndDoesNotBlockThemForEver) {
  FillWithGrants(4);
  Answer<v1::StartPutsResponse> large;
  handlers.StartPuts(WaitingPut("large", 3 * kMiB, absl::Seconds(30)), now, large.done());
  Answer<v1::StartPutsResponse> small;
  handlers.StartPuts(WaitingPut("small", kObject, absl::Seconds(30)), now, small.done());
  Abort(held[0]);
  handlers.Tick(now);
  EXPECT_EQ(small.count, 0) << "the large put has its turn";
  EXPECT_EQ(large.count, 0);
  Advance(absl::Seconds(2));
  Abort(held[1]);
  handlers.Tick(now);
  EXPECT_TRUE(small.is_there());
  EXPECT_EQ(large.count, 0);
}

TEST_F(WaitingTest, APutOfWhatIsThereDoesNotStandInTheQueue) {
  FillWithGrants(2);
  Commit(held[0]);
  Answer<v1::StartPutsResponse> waiting;
  handlers.StartPuts(WaitingPut("x", 2 * kMiB - kPartHeaderBytes), now, waiting.done());
  EXPECT_EQ(waiting.count, 0);

  Answer<v1::StartPutsResponse> known;
  handlers.StartPuts(WaitingPut("held0"), now, known.done());
  ASSERT_TRUE(known.is_there());
  EXPECT_EQ(WireReason(known.response.results(0).status()), ErrorReason::kAlreadyExists);

  Answer<v1::StartPutsResponse> behind;
  handlers.StartPuts(WaitingPut("y", 10), now, behind.done());
  EXPECT_EQ(behind.count, 0);
  EXPECT_EQ(handlers.waiter_count(), 2u);
}

TEST_F(WaitingTest, APutWaitsForTheOtherWriter) {
  AddNode("n1", 16 * kMiB);
  const v1::Grant grant = Grant("k", 100);
  v1::StartPutsRequest request = PutRequest({"k"}, 100);
  Answer<v1::StartPutsResponse> refused;
  handlers.StartPuts(request, now, refused.done());
  ASSERT_TRUE(refused.is_there());
  EXPECT_EQ(WireReason(refused.response.results(0).status()), ErrorReason::kBeingWritten);

  request = PutRequest({"k"}, 100);
  request.set_wait_for_writer(true);
  Answer<v1::StartPutsResponse> committed;
  handlers.StartPuts(request, now, committed.done());
  EXPECT_EQ(committed.count, 0);
  Commit(grant);
  ASSERT_TRUE(committed.is_there());
  EXPECT_EQ(WireReason(committed.response.results(0).status()), ErrorReason::kAlreadyExists);
  EXPECT_EQ(committed.response.results(0).existing_generation(), grant.generation());
}

TEST_F(WaitingTest, TheNextWriterGetsTheGrantOfOneThatAborts) {
  AddNode("n1", 16 * kMiB);
  const v1::Grant grant = Grant("k", 100);
  v1::StartPutsRequest request = PutRequest({"k"}, 100);
  request.set_wait_for_writer(true);
  Answer<v1::StartPutsResponse> put;
  handlers.StartPuts(request, now, put.done());
  Abort(grant);
  ASSERT_TRUE(put.is_there());
  EXPECT_GT(put.response.results(0).grant().generation(), grant.generation());
}

TEST_F(WaitingTest, LocateHoldsKeysThatAreBeingWrittenAndCountsThemOnce) {
  AddNode("n1", 16 * kMiB);
  Put("a", 100);
  const v1::Grant grant = Grant("b", 100);
  v1::LocateRequest request = KeysRequest<v1::LocateRequest>({"a", "b"});
  request.set_wait_for_writer(true);
  request.set_lease_ms(500);
  Answer<v1::LocateResponse> located;
  handlers.Locate(request, now, located.done());
  EXPECT_EQ(located.count, 0);
  Advance(absl::Seconds(1));
  Commit(grant);
  ASSERT_TRUE(located.is_there());
  EXPECT_TRUE(located.response.results(0).has_location());
  EXPECT_EQ(located.response.results(1).location().generation(), grant.generation());
  EXPECT_EQ(located.response.results(1).location().lease_ms(), 1500u);
  EXPECT_EQ(handlers.counts().hits, 2u);
}

TEST_F(WaitingTest, LocateSaysBeingWrittenWhenTheWriterTakesTooLong) {
  AddNode("n1", 16 * kMiB);
  const v1::Grant grant = Grant("b", 100);
  v1::LocateRequest request =
      KeysRequest<v1::LocateRequest>({"b"}, /*timeout=*/absl::Milliseconds(200));
  request.set_wait_for_writer(true);
  Answer<v1::LocateResponse> located;
  handlers.Locate(request, now, located.done());
  Advance(absl::Milliseconds(200));
  ASSERT_TRUE(located.is_there());
  EXPECT_EQ(WireReason(located.response.results(0).status()), ErrorReason::kBeingWritten);
}

TEST_F(WaitingTest, RemoveIsAnsweredWhenTheHolderConfirmed) {
  Node& node = AddNode("n1", 16 * kMiB);
  Put("a", 100);
  Answer<v1::RemoveResponse> removed;
  handlers.Remove(KeysRequest<v1::RemoveRequest>({"a", "nothing"}), now, removed.done());
  EXPECT_EQ(removed.count, 0);
  ConfirmCommands(node);
  ASSERT_TRUE(removed.is_there());
  EXPECT_EQ(removed.response.results(0).code(), 0);
  EXPECT_EQ(WireReason(removed.response.results(1)), ErrorReason::kNeverStored);
}

TEST_F(WaitingTest, RemoveThatIsNotConfirmedInTimeSaysSoForItsKeysOnly) {
  AddNode("n1", 16 * kMiB);
  Put("a", 100);
  Answer<v1::RemoveResponse> removed;
  handlers.Remove(KeysRequest<v1::RemoveRequest>({"a", "nothing"}, absl::Seconds(1)), now,
                  removed.done());
  Advance(absl::Seconds(1));
  ASSERT_TRUE(removed.is_there());
  ASSERT_THAT(removed.status, IsOk());
  EXPECT_EQ(removed.response.results(0).code(),
            static_cast<int>(absl::StatusCode::kDeadlineExceeded));
  EXPECT_EQ(WireReason(removed.response.results(1)), ErrorReason::kNeverStored);
}

TEST_F(WaitingTest, ShutdownAnswersEveryoneWhoWaits) {
  FillWithGrants(1);
  Answer<v1::StartPutsResponse> put;
  handlers.StartPuts(WaitingPut("x"), now, put.done());
  v1::LocateRequest request = KeysRequest<v1::LocateRequest>({"held0"});
  request.set_wait_for_writer(true);
  Answer<v1::LocateResponse> located;
  handlers.Locate(request, now, located.done());
  handlers.Shutdown(now);
  EXPECT_THAT(put.status, Fails(absl::StatusCode::kUnavailable, ErrorReason::kShuttingDown));
  EXPECT_THAT(located.status, Fails(absl::StatusCode::kUnavailable, ErrorReason::kShuttingDown));
  handlers.Shutdown(now);
  EXPECT_EQ(put.count + located.count, 2);
}

class BoundedWaitingTest : public WaitingTest {
 protected:
  BoundedWaitingTest() : WaitingTest({.max_wait = absl::Seconds(3), .max_waiters = 1}) {}
};

TEST_F(BoundedWaitingTest, TooManyWaitersAreRefusedAtOnce) {
  FillWithGrants(1);
  Answer<v1::StartPutsResponse> first;
  handlers.StartPuts(WaitingPut("x"), now, first.done());
  Answer<v1::StartPutsResponse> second;
  handlers.StartPuts(WaitingPut("y"), now, second.done());
  ASSERT_TRUE(second.is_there());
  ASSERT_THAT(second.status, IsOk());
  EXPECT_EQ(WireReason(second.response.results(0).status()), ErrorReason::kLimitReached);

  v1::LocateRequest request = KeysRequest<v1::LocateRequest>({"held0"});
  request.set_wait_for_writer(true);
  Answer<v1::LocateResponse> located;
  handlers.Locate(request, now, located.done());
  ASSERT_TRUE(located.is_there());
  EXPECT_EQ(WireReason(located.response.results(0).status()), ErrorReason::kLimitReached);
  EXPECT_EQ(handlers.counts().waits_refused, 2u);
}

TEST_F(BoundedWaitingTest, NobodyWaitsLongerThanTheMaster) {
  FillWithGrants(1);
  Answer<v1::StartPutsResponse> put;
  v1::StartPutsRequest request = WaitingPut("x");
  request.mutable_header()->set_timeout_ms(~uint64_t{0});
  handlers.StartPuts(request, now, put.done());
  Advance(absl::Seconds(3));
  EXPECT_TRUE(put.is_there());
}

}  // namespace
}  // namespace moonpool::master
