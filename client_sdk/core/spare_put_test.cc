// Puts that have their grant already, see spare_path.h.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "client_sdk/core/spare_path.h"
#include "client_sdk/core/testing/fake_pool.h"
#include "common/testing/status_matchers.h"

namespace moonpool::client {
namespace {

using ::testing::Each;
using ::testing::SizeIs;

class SparePut : public ::testing::Test {
 protected:
  SparePut() { pool_.master.spares_max = 3; }

  absl::Status Put(const std::string& key, const std::string& value,
                   const PutOptions& options = {}) {
    return pool_.Put(*client_, key, value, options);
  }
  std::string Get(const std::string& key) {
    const absl::StatusOr<std::string> value = pool_.NewClient()->Get(key, {});
    return value.ok() ? *value : Describe(value.status());
  }
  // Two puts of a size bring spares of it.
  void Begin(const PutOptions& options = {}) {
    EXPECT_THAT(Put("before1", "12345", options), IsOk());
    EXPECT_THAT(Put("before2", "12345", options), IsOk());
    EXPECT_EQ(pool_.master.spares(), 3u);
    starts_ = pool_.master.calls("StartPuts");
    calls_ = pool_.master.calls();
  }
  int starts() const { return pool_.master.calls("StartPuts") - starts_; }
  int calls() const { return pool_.master.calls() - calls_; }

  FakePool pool_{{"n1", "n2", "n3"}};
  std::unique_ptr<CoreClient> client_ = pool_.NewClient();
  int starts_ = 0;
  int calls_ = 0;
};

TEST_F(SparePut, TheThirdOfASizeCostsOneCall) {
  Begin();
  EXPECT_THAT(Put("a", "alpha"), IsOk());
  EXPECT_EQ(calls(), 1);
  EXPECT_EQ(Get("a"), "alpha");
  // Its location is known, with the handle that it has now.
  EXPECT_EQ(*client_->Get("a", {}), "alpha");
  EXPECT_EQ(calls(), 2);  // the other reader's
  EXPECT_THAT(Put("b", "bravo"), IsOk());
  EXPECT_THAT(Put("c", "charl"), IsOk());
  EXPECT_EQ(starts(), 0);
}

TEST_F(SparePut, OtherPutsAskForTheirGrants) {
  Begin();
  EXPECT_THAT(Put("a", "another size"), IsOk());
  EXPECT_EQ(starts(), 1);
  EXPECT_THAT(Put("b", "12345", {.replicas = 2}), IsOk());
  EXPECT_EQ(starts(), 2);
  EXPECT_THAT(Put("c", "12345", {.wait_for_writer = true}), IsOk());
  EXPECT_EQ(starts(), 3);
  const std::vector<PutItem> two = {{.key = "d", .value = {BytesOf("12345")}},
                                    {.key = "e", .value = {BytesOf("12345")}}};
  EXPECT_THAT(client_->PutMany(two, {}), Each(IsOk()));
  EXPECT_EQ(starts(), 4);
  EXPECT_THAT(Put("f", "12345", {.call = {.timeout = kSpareTimeMin / 2}}), IsOk());
  EXPECT_EQ(starts(), 5);
  EXPECT_THAT(Put("g", "12345"), IsOk());
  EXPECT_EQ(starts(), 5);
}

TEST_F(SparePut, AllReplicasOrAGrantThatMayLackSome) {
  Begin({.replicas = 2});
  EXPECT_THAT(Put("a", "12345", {.replicas = 2}), IsOk());
  EXPECT_EQ(starts(), 0);
  EXPECT_THAT(pool_.master.NodesOf("a"), SizeIs(2));
  EXPECT_THAT(Put("b", "12345", {.replicas = 2, .min_replicas = 1}), IsOk());
  EXPECT_EQ(starts(), 1);
}

TEST_F(SparePut, AKeyThatIsTakenIsSaidToBeAndThereAreNoSparesForAWhile) {
  Begin();
  EXPECT_THAT(pool_.Put(*pool_.NewClient(), "a", "other"), IsOk());
  EXPECT_THAT(Put("a", "alpha"),
              Fails(absl::StatusCode::kAlreadyExists, ErrorReason::kAlreadyExists));
  EXPECT_EQ(Get("a"), "other");
  const int before = starts();
  EXPECT_THAT(Put("b", "bravo"), IsOk());
  EXPECT_EQ(starts(), before + 1);
}

TEST_F(SparePut, AKeyThatIsKnownToBeThereIsNotWritten) {
  Begin();
  EXPECT_THAT(Put("before1", "alpha"),
              Fails(absl::StatusCode::kAlreadyExists, ErrorReason::kAlreadyExists));
  EXPECT_EQ(starts(), 1);
  EXPECT_EQ(pool_.master.calls("CommitPuts"), 2);
}

TEST_F(SparePut, AnotherWriterIsSaidToBeThere) {
  Begin();
  v1::StartPutsRequest other;
  other.set_request_id(1);
  other.add_puts()->set_key("a");
  EXPECT_THAT(pool_.master.StartPuts(other, {}), IsOk());
  EXPECT_THAT(Put("a", "alpha"), Fails(absl::StatusCode::kAborted, ErrorReason::kBeingWritten));
}

TEST_F(SparePut, ANodeThatDiesCostsAnAttempt) {
  Begin();
  for (const auto& node : pool_.nodes.all()) node->Restart();
  EXPECT_THAT(Put("a", "alpha"), IsOk());
  EXPECT_EQ(starts(), 1);
  EXPECT_EQ(Get("a"), "alpha");
  // The attempt was given back under its key, and what else there was.
  const std::vector<v1::AbortPut> aborts = pool_.master.aborts();
  ASSERT_THAT(aborts, SizeIs(3));
  EXPECT_EQ(aborts[0].key(), "a");
  EXPECT_EQ(aborts[1].key(), "");
  EXPECT_EQ(pool_.master.spares(), 0u);
}

TEST_F(SparePut, AnotherLeaderCostsAnAttempt) {
  Begin();
  pool_.master.ChangeLeader();
  EXPECT_THAT(Put("a", "alpha"), IsOk());
  EXPECT_EQ(Get("a"), "alpha");
}

TEST_F(SparePut, OldOnesAreNotUsed) {
  Begin();
  pool_.clock.Advance(absl::Milliseconds(2500));
  EXPECT_THAT(Put("a", "alpha"), IsOk());
  EXPECT_EQ(starts(), 1);
  EXPECT_THAT(Put("b", "bravo"), IsOk());
  EXPECT_EQ(starts(), 1);
}

TEST_F(SparePut, ACommitWithoutAnswerIsRepeated) {
  Begin();
  pool_.master.Fail("CommitPuts", absl::UnavailableError("reset"),
                    {.times = 2, .is_applied = true});
  EXPECT_THAT(Put("a", "alpha"), IsOk());
  EXPECT_EQ(starts(), 0);
  EXPECT_EQ(Get("a"), "alpha");
}

TEST_F(SparePut, AtItsDeadlineTheMasterHearsOfIt) {
  Begin();
  for (const auto& node : pool_.nodes.all()) node->faults.is_frozen = true;
  const absl::Time begun = pool_.clock.Now();
  const absl::Status late = Put("a", "alpha", {.call = {.timeout = absl::Milliseconds(500)}});
  EXPECT_THAT(late, StatusIs(absl::StatusCode::kDeadlineExceeded));
  EXPECT_LE(pool_.clock.Now() - begun, absl::Milliseconds(500));
  ASSERT_FALSE(pool_.master.aborts().empty());
  EXPECT_EQ(pool_.master.aborts()[0].key(), "a");
}

TEST_F(SparePut, AtTheEndTheyAreGivenBack) {
  Begin();
  client_->Close();
  EXPECT_EQ(pool_.master.spares(), 0u);
  EXPECT_EQ(calls(), 1);
  client_->Close();
  EXPECT_EQ(calls(), 1);
}

TEST_F(SparePut, AMasterThatGivesNoneIsAskedTwice) {
  pool_.master.spares_max = 0;
  for (int i = 0; i < 5; ++i) EXPECT_THAT(Put(absl::StrCat("k", i), "12345"), IsOk());
  EXPECT_EQ(pool_.master.calls("StartPuts"), 5);
}

TEST_F(SparePut, SparesThatMakeNoSenseAreNotUsed) {
  pool_.master.stripe_bytes = 2;  // it stripes them: that is right, and works
  Begin();
  EXPECT_THAT(Put("a", "alpha"), IsOk());
  EXPECT_EQ(starts(), 0);
  EXPECT_EQ(Get("a"), "alpha");
}

}  // namespace
}  // namespace moonpool::client
