#include "client_sdk/core/look_path.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "client_sdk/core/testing/fake_pool.h"
#include "common/testing/status_matchers.h"

namespace moonpool::client {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

class LookPathTest : public ::testing::Test {
 protected:
  void PutAll(const std::vector<std::string>& keys) {
    for (const std::string& key : keys) ASSERT_THAT(pool_.Put(*client_, key, "value"), IsOk());
  }
  std::vector<std::string> AllKeys(const std::string& prefix, size_t limit) {
    std::vector<std::string> keys;
    ListOptions options = {.limit = limit};
    do {
      const absl::StatusOr<KeyPage> page = client_->ListKeys(prefix, options);
      EXPECT_THAT(page, IsOk());
      if (!page.ok()) break;
      EXPECT_LE(page->keys.size(), limit);
      keys.insert(keys.end(), page->keys.begin(), page->keys.end());
      options.after = page->next;
    } while (!options.after.empty());
    return keys;
  }

  FakePool pool_{{"n1", "n2", "n3"}};
  std::unique_ptr<CoreClient> client_ = pool_.NewClient();
};

TEST_F(LookPathTest, DescribesSizeAndPlaceOfEveryReplica) {
  pool_.master.placement = {"n1", "n2"};
  ASSERT_THAT(pool_.Put(*client_, "both", "four", {.replicas = 2}), IsOk());
  ASSERT_THAT(pool_.Put(*client_, "none", ""), IsOk());
  const auto described = client_->Describe({"both", "none", "never"}, {});
  ASSERT_THAT(described[0], IsOk());
  EXPECT_EQ(described[0]->size_bytes, 4u);
  EXPECT_THAT(described[0]->replicas, ElementsAre(ElementsAre("n1"), ElementsAre("n2")));
  ASSERT_THAT(described[1], IsOk());
  EXPECT_EQ(described[1]->size_bytes, 0u);
  EXPECT_THAT(described[2], Fails(absl::StatusCode::kNotFound, ErrorReason::kNeverStored));
  EXPECT_EQ(DetailOf(described[2].status())->key, "never");
}

TEST_F(LookPathTest, ANodeWithSeveralPartsIsNamedOnce) {
  pool_.master.placement = {"n1", "n2"};
  pool_.master.stripe_bytes = 2;
  ASSERT_THAT(pool_.Put(*client_, "k", "six by"), IsOk());
  const auto described = client_->Describe({"k"}, {});
  ASSERT_THAT(described[0], IsOk());
  EXPECT_THAT(described[0]->replicas, ElementsAre(ElementsAre("n1", "n2")));
}

TEST_F(LookPathTest, DescribeAsksTheMasterAndMakesTheGetFree) {
  PutAll({"k"});
  EXPECT_THAT(client_->Describe({"k"}, {})[0], IsOk());
  EXPECT_EQ(pool_.master.calls("Locate"), 1) << "its own put had told it the place";
  const auto reader = pool_.NewClient();
  EXPECT_THAT(reader->Describe({"k"}, {})[0], IsOk());
  EXPECT_THAT(reader->Get("k", {}), IsOk());
  EXPECT_EQ(reader->stats().master_calls, 1u);
  pool_.master.Evict("k");
  EXPECT_THAT(reader->Describe({"k"}, {})[0],
              Fails(absl::StatusCode::kNotFound, ErrorReason::kEvicted));
}

TEST_F(LookPathTest, DescribeAnswersBadKeysWithoutTheMaster) {
  EXPECT_THAT(client_->Describe({}, {}), IsEmpty());
  EXPECT_THAT(client_->Describe({""}, {})[0],
              Fails(absl::StatusCode::kInvalidArgument, ErrorReason::kKeyEmpty));
  const std::vector<std::string> many(kMaxBatchKeys + 1, "k");
  const auto described = client_->Describe(many, {});
  ASSERT_THAT(described, SizeIs(many.size()));
  EXPECT_THAT(described.back(),
              Fails(absl::StatusCode::kInvalidArgument, ErrorReason::kBatchTooLarge));
  EXPECT_EQ(pool_.master.calls(), 0);
}

TEST_F(LookPathTest, ErrorsOfTheCallGoToEveryKey) {
  pool_.master.Fail("Locate", absl::PermissionDeniedError("no"));
  for (const auto& described : client_->Describe({"a", "b"}, {})) {
    EXPECT_THAT(described, StatusIs(absl::StatusCode::kPermissionDenied));
  }
}

TEST_F(LookPathTest, ListsEveryKeyOnceWhateverThePage) {
  PutAll({"a1", "a2", "b1", "a3"});
  for (const size_t limit : {size_t{1}, size_t{2}, size_t{100}}) {
    EXPECT_THAT(AllKeys("a", limit), UnorderedElementsAre("a1", "a2", "a3"));
    EXPECT_THAT(AllKeys("", limit), UnorderedElementsAre("a1", "a2", "a3", "b1"));
    EXPECT_THAT(AllKeys("c", limit), IsEmpty());
  }
}

TEST_F(LookPathTest, APageIsFilledThoughTheMasterAnswersInPieces) {
  PutAll({"a1", "b1", "b2", "c1"});
  ASSERT_OK_AND_ASSIGN(const KeyPage page, client_->ListKeys("b", {.limit = 2}));
  EXPECT_THAT(page.keys, ElementsAre("b1", "b2"));
  EXPECT_GT(pool_.master.calls("ListObjects"), 1);
}

TEST_F(LookPathTest, AsksForNoMoreThanTheMasterGives) {
  PutAll({"a"});
  EXPECT_THAT(client_->ListKeys("", {.limit = 1 << 20}), IsOk());
  EXPECT_THAT(pool_.master.list_limits, ElementsAre(10'000));
  EXPECT_THAT(client_->ListKeys("", {.limit = 0}),
              Fails(absl::StatusCode::kInvalidArgument, ErrorReason::kBadArgument));
}

TEST_F(LookPathTest, ListingOutlastsAnOutageAndEndsAtItsDeadline) {
  PutAll({"a"});
  pool_.master.Fail("ListObjects", absl::UnavailableError("restarting"), {.times = 10});
  ASSERT_OK_AND_ASSIGN(const KeyPage page, client_->ListKeys("", {}));
  EXPECT_THAT(page.keys, ElementsAre("a"));
  pool_.master.Fail("ListObjects", absl::UnavailableError("restarting"), {.times = 1000});
  const absl::Time begun = pool_.clock.Now();
  EXPECT_FALSE(client_->ListKeys("", {.call = {.timeout = absl::Seconds(1)}}).ok());
  EXPECT_LE(pool_.clock.Now() - begun, absl::Seconds(1));
}

TEST_F(LookPathTest, AnErrorInTheMiddleOfAPageLosesNothingOfIt) {
  PutAll({"a1", "b1", "b2", "c1"});
  int asked = 0;
  pool_.master.on_call = [&](absl::string_view) {
    if (++asked == 3) pool_.master.Fail("ListObjects", absl::PermissionDeniedError("no"));
  };
  ASSERT_OK_AND_ASSIGN(const KeyPage page, client_->ListKeys("", {}));
  EXPECT_THAT(page.keys, SizeIs(2));
  EXPECT_THAT(client_->ListKeys("", {.after = page.next}), IsOk()) << "failed once";
  pool_.master.Fail("ListObjects", absl::PermissionDeniedError("no"));
  EXPECT_THAT(client_->ListKeys("", {.after = page.next}),
              StatusIs(absl::StatusCode::kPermissionDenied))
      << "nothing was looked at";
}

}  // namespace
}  // namespace moonpool::client
