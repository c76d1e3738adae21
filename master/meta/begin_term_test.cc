#include "master/meta/begin_term.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/clock.h"
#include "common/testing/status_matchers.h"
#include "master/meta/testing/memory_meta_store.h"

namespace moonpool::master {
namespace {

class BeginTermTest : public testing::Test {
 protected:
  absl::StatusOr<BegunTerm> Begin(Term at_least, absl::Duration patience = absl::Seconds(20)) {
    return BeginTerm(store_, at_least, clock_, clock_.Now() + patience);
  }
  absl::StatusOr<Term> TermOf(Term at_least) {
    absl::StatusOr<BegunTerm> begun = Begin(at_least);
    if (!begun.ok()) return begun.status();
    return begun->term;
  }

  MemoryDisk disk_;
  MemoryMetaStore store_{disk_};
  const SteadyClock clock_ = {};
};

TEST_F(BeginTermTest, EveryTermIsLaterThanAllBefore) {
  EXPECT_THAT(TermOf(Term{100}), testing::Eq(absl::StatusOr<Term>(Term{100})));
  EXPECT_EQ(*TermOf(Term{100}), Term{101}) << "the clock stood still";
  EXPECT_EQ(*TermOf(Term{7}), Term{102}) << "it was set back";
  EXPECT_EQ(*TermOf(Term{500}), Term{500});
}

TEST_F(BeginTermTest, ItIsDurableAndWhatWasLeftComesAlong) {
  const DurableNode node{"n1", Incarnation{9}, {}};
  const MetaChange change = EncodeChange(node);
  disk_[change.key] = *change.value;
  const auto begun = Begin(Term{5});
  ASSERT_THAT(begun, IsOk());
  EXPECT_THAT(begun->left.state.nodes, testing::ElementsAre(node));
  EXPECT_EQ(disk_["term"], *EncodeChange(Term{5}).value);
}

TEST_F(BeginTermTest, WithoutTheStoreThereIsNone) {
  store_.FailWrites(absl::ResourceExhaustedError("full"));
  EXPECT_THAT(Begin(Term{5}), StatusIs(absl::StatusCode::kResourceExhausted));
  store_.Hold();
  EXPECT_THAT(Begin(Term{5}, absl::Milliseconds(1)),
              Fails(absl::StatusCode::kDeadlineExceeded, ErrorReason::kDeadline));
}

TEST_F(BeginTermTest, TheLastTermIsTheEnd) {
  disk_["term"] = *EncodeChange(Term{~0u}).value;
  EXPECT_THAT(Begin(Term{5}), StatusIs(absl::StatusCode::kDataLoss));
}

}  // namespace
}  // namespace moonpool::master
