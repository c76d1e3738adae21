// Commits that ask for spare grants, and commits of those.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "master/handlers/handlers_fixture.h"

namespace moonpool::master {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

class SpareCommit : public HandlersFixture {
 protected:
  v1::CommitPutsRequest Wish(uint32_t count, uint64_t size_bytes = 1000) {
    auto request = NewRequest<v1::CommitPutsRequest>();
    request.mutable_spare()->set_count(count);
    request.mutable_spare()->set_size_bytes(size_bytes);
    return request;
  }
  v1::Grant Spare() {
    Answer<v1::CommitPutsResponse> answer;
    handlers.CommitPuts(Wish(1), now, answer.done());
    EXPECT_EQ(answer.response.spares_size(), 1);
    return answer.response.spares(0);
  }
  v1::CommitPutsRequest CommitAs(const std::string& key, const v1::Grant& spare,
                                 absl::Duration timeout = absl::Seconds(10)) {
    auto request = NewRequest<v1::CommitPutsRequest>(timeout);
    v1::CommitPut* put = request.add_puts();
    put->set_generation(spare.generation());
    put->set_handle(spare.handle());
    put->set_key(key);
    return request;
  }

  Node& node_ = AddNode("n1", 64 * kMiB);
};

TEST_F(SpareCommit, SparesComeWithACommitAndTheirNodesAddresses) {
  const v1::Grant grant = Grant("a", 1000);
  v1::CommitPutsRequest request = Wish(2);
  request.add_puts()->set_generation(grant.generation());
  request.mutable_puts(0)->set_handle(grant.handle());
  Answer<v1::CommitPutsResponse> answer;
  handlers.CommitPuts(request, now, answer.done());
  ASSERT_THAT(answer.status, IsOk());
  EXPECT_EQ(answer.response.results(0).code(), 0);
  EXPECT_THAT(answer.response.bound(), IsEmpty());
  ASSERT_THAT(answer.response.spares(), SizeIs(2));
  ASSERT_THAT(answer.response.nodes(), SizeIs(1));
  EXPECT_EQ(answer.response.nodes(0).node_id(),
            answer.response.spares(1).replicas(0).parts(0).node_id());
  EXPECT_EQ(answer.response.spares(1).deadline_ms(), 5000u);

  const v1::Grant& spare = answer.response.spares(0);
  Answer<v1::CommitPutsResponse> committed;
  handlers.CommitPuts(CommitAs("b", spare), now, committed.done());
  EXPECT_EQ(committed.response.results(0).code(), 0);
  ASSERT_THAT(committed.response.bound(), SizeIs(1));
  EXPECT_THAT(committed.response.spares(), IsEmpty());  // none were asked for
  Answer<v1::LocateResponse> located;
  handlers.Locate(KeysRequest<v1::LocateRequest>({"b"}), now, located.done());
  EXPECT_EQ(located.response.results(0).location().handle(), committed.response.bound(0).handle());
}

TEST_F(SpareCommit, WhoLosesIsToldWhenNothingOfHisIsLeft) {
  const v1::Grant spare = Spare();
  Put("a", 1000);
  Answer<v1::CommitPutsResponse> answer;
  EXPECT_NE(handlers.CommitPuts(CommitAs("a", spare), now, answer.done()), CallId{});
  EXPECT_FALSE(answer.is_there());
  ConfirmCommands(node_);
  ASSERT_TRUE(answer.is_there());
  EXPECT_EQ(WireReason(answer.response.results(0)), ErrorReason::kAlreadyExists);
  EXPECT_NE(answer.response.bound(0).existing_generation(), 0u);
  EXPECT_EQ(handlers.counts().refused[static_cast<size_t>(ErrorReason::kAlreadyExists)], 1u);
  // A repeated one, too.
  Answer<v1::CommitPutsResponse> repeated;
  handlers.CommitPuts(CommitAs("a", spare), now, repeated.done());
  ASSERT_TRUE(repeated.is_there());
  EXPECT_EQ(repeated.response.results(0).code(), answer.response.results(0).code());
}

TEST_F(SpareCommit, OrAtTheEndOfHisTime) {
  const v1::Grant spare = Spare();
  Put("a", 1000);
  Answer<v1::CommitPutsResponse> answer;
  handlers.CommitPuts(CommitAs("a", spare, absl::Seconds(2)), now, answer.done());
  Advance(absl::Seconds(1));
  EXPECT_FALSE(answer.is_there());
  Advance(absl::Seconds(1));
  ASSERT_TRUE(answer.is_there());
  EXPECT_EQ(WireReason(answer.response.results(0)), ErrorReason::kAlreadyExists);
}

TEST_F(SpareCommit, OthersOfABatchAreCommittedMeanwhile) {
  const v1::Grant loser = Spare();
  const v1::Grant winner = Spare();
  Put("a", 1000);
  v1::CommitPutsRequest request = CommitAs("a", loser);
  *request.add_puts() = CommitAs("b", winner).puts(0);
  Answer<v1::CommitPutsResponse> answer;
  handlers.CommitPuts(request, now, answer.done());
  EXPECT_FALSE(answer.is_there());
  Answer<v1::LocateResponse> located;
  handlers.Locate(KeysRequest<v1::LocateRequest>({"b"}), now, located.done());
  EXPECT_EQ(located.response.results(0).status().code(), 0);
  ConfirmCommands(node_);
  ASSERT_TRUE(answer.is_there());
  ASSERT_THAT(answer.response.results(), SizeIs(2));
  EXPECT_EQ(answer.response.results(1).code(), 0);
  EXPECT_EQ(answer.response.bound(1).handle(), located.response.results(0).location().handle());
}

// What was said of the others stays so, whatever becomes of them while one waits.
TEST_F(SpareCommit, OnlyWhatIsPendingIsAskedAgain) {
  const v1::Grant loser = Spare();
  Put("a", 1000);
  const v1::Grant granted = Grant("b", 1000);
  v1::CommitPutsRequest request = CommitAs("a", loser);
  request.add_puts()->set_generation(granted.generation());
  request.mutable_puts(1)->set_handle(granted.handle());
  Answer<v1::CommitPutsResponse> answer;
  handlers.CommitPuts(request, now, answer.done());
  ASSERT_FALSE(answer.is_there());
  Answer<v1::RemoveResponse> removed;
  handlers.Remove(KeysRequest<v1::RemoveRequest>({"b"}), now, removed.done());
  ConfirmCommands(node_);
  ASSERT_TRUE(answer.is_there());
  ASSERT_THAT(answer.response.results(), SizeIs(2));
  EXPECT_EQ(WireReason(answer.response.results(0)), ErrorReason::kAlreadyExists);
  EXPECT_EQ(answer.response.results(1).code(), 0);
  EXPECT_THAT(answer.response.bound(), SizeIs(1));
}

TEST_F(SpareCommit, WhoeverWaitsForSpaceComesFirst) {
  auto large = PutRequest({"large"}, 60 * kMiB);
  large.set_wait_for_space(true);
  const v1::Grant grant = Grant("a", 10 * kMiB);
  Answer<v1::StartPutsResponse> waiting;
  handlers.StartPuts(large, now, waiting.done());
  ASSERT_FALSE(waiting.is_there());
  Answer<v1::CommitPutsResponse> answer;
  handlers.CommitPuts(Wish(1), now, answer.done());
  EXPECT_THAT(answer.response.spares(), IsEmpty());
}

TEST_F(SpareCommit, WishesAreChecked) {
  v1::CommitPutsRequest request = Wish(1);
  request.mutable_spare()->set_replicas(kMaxReplicas + 1);
  Answer<v1::CommitPutsResponse> answer;
  handlers.CommitPuts(request, now, answer.done());
  EXPECT_THAT(answer.status, Fails(absl::StatusCode::kInvalidArgument, ErrorReason::kBadArgument));
  Answer<v1::CommitPutsResponse> endless;
  handlers.CommitPuts(Wish(UINT32_MAX, UINT64_MAX), now, endless.done());
  EXPECT_THAT(endless.status, IsOk());
  EXPECT_THAT(endless.response.spares(), IsEmpty());
}

}  // namespace
}  // namespace moonpool::master
