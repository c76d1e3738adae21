// What the model must not excuse, however much is broken.
#include "tests/sim/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/error.h"

namespace moonpool::sim {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ModelTest : public ::testing::Test {
 protected:
  static absl::Time At(int seconds) { return absl::UnixEpoch() + absl::Seconds(seconds); }
  void Put(int begun, int ended, const absl::Status& status, int starts) {
    EXPECT_THAT(model_.PutEnded(model_.PutStarted("k", 10, At(begun)), status, starts, At(ended)),
                IsEmpty());
  }
  std::string Miss(ErrorReason reason, int begun) {
    return model_.Got("k", MakeError(absl::StatusCode::kNotFound, reason, "gone"), {}, At(begun),
                      At(begun + 1));
  }

  Model model_{{.nodes_lost = true,
                .network_faults = true,
                .evicts = true,
                .master_crashes = true,
                .slow_callers = true}};
};

constexpr ErrorReason kOfGrants[] = {ErrorReason::kBeingWritten, ErrorReason::kGrantAborted,
                                     ErrorReason::kExpired};

TEST_F(ModelTest, AnAcknowledgedPutWasNoGrantThatCameToNothing) {
  Put(1, 2, absl::OkStatus(), /*starts=*/1);
  Put(3, 4, absl::AlreadyExistsError("there"), /*starts=*/1);
  for (const ErrorReason reason : kOfGrants) {
    EXPECT_THAT(Miss(reason, 5), HasSubstr("is said never to have been"));
  }
  EXPECT_THAT(Miss(ErrorReason::kEvicted, 5), IsEmpty());
}

TEST_F(ModelTest, AStartThatWasRepeatedMayArriveAfterTheObjectHasGone) {
  Put(1, 2, absl::OkStatus(), /*starts=*/2);
  for (const ErrorReason reason : kOfGrants) EXPECT_THAT(Miss(reason, 5), IsEmpty());
}

TEST_F(ModelTest, AnotherPutMayBeUnderWayAfterTheObjectHasGone) {
  Put(1, 2, absl::OkStatus(), /*starts=*/1);
  model_.PutStarted("k", 10, At(5));
  for (const ErrorReason reason : kOfGrants) EXPECT_THAT(Miss(reason, 6), IsEmpty());
}

TEST_F(ModelTest, AGrantWhoseWriterGaveUpEndsByItself) {
  Put(1, 2, absl::DeadlineExceededError("late"), /*starts=*/1);
  Put(3, 4, absl::OkStatus(), /*starts=*/1);
  EXPECT_THAT(Miss(ErrorReason::kExpired, 5), IsEmpty());
  Put(1000, 1001, absl::OkStatus(), /*starts=*/1);
  EXPECT_THAT(Miss(ErrorReason::kExpired, 1002), HasSubstr("is said never to have been"));
}

TEST_F(ModelTest, ARemovalThatFoundNoMasterInTheEndMayTakeEffectLater) {
  model_.RemoveStarted("k", At(1));
  const auto ends = [&](const absl::Status& status) {
    return model_.RemoveEnded("k", status, {.begun = At(1)}, At(2));
  };
  EXPECT_THAT(ends(absl::UnavailableError("no master leads")), IsEmpty());
  Put(3, 4, absl::OkStatus(), /*starts=*/1);
  EXPECT_THAT(Miss(ErrorReason::kRemoved, 5), IsEmpty());
  EXPECT_THAT(ends(absl::NotFoundError("never stored")), IsEmpty());
  EXPECT_THAT(Miss(ErrorReason::kRemoved, 5), HasSubstr("is missing"));
}

TEST_F(ModelTest, ARemovalThatWasSentTwiceMayBeCarriedOutTwice) {
  model_.RemoveStarted("k", At(1));
  EXPECT_THAT(model_.RemoveEnded("k", absl::OkStatus(), {.begun = At(1), .sent = 2}, At(2)),
              IsEmpty());
  Put(3, 4, absl::OkStatus(), /*starts=*/1);
  EXPECT_THAT(Miss(ErrorReason::kRemoved, 5), IsEmpty());
  Put(1000, 1001, absl::OkStatus(), /*starts=*/1);
  EXPECT_THAT(Miss(ErrorReason::kRemoved, 1002), HasSubstr("is missing"));
}

}  // namespace
}  // namespace moonpool::sim
