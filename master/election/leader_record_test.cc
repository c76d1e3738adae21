#include "master/election/leader_record.h"

#include <gtest/gtest.h>

#include "common/testing/status_matchers.h"
#include "master/election/election_options.h"

namespace moonpool::master {
namespace {

TEST(LeaderRecordTest, SaysWhatItWasTold) {
  const LeaderRecord record{.term = Term{7}, .candidate = 0xc0ffee, .address = "[::1]:7400"};
  EXPECT_EQ(FormatLeaderRecord(record), "term=7 candidate=0000000000c0ffee address=[::1]:7400");
  ASSERT_OK_AND_ASSIGN(const LeaderRecord read, ParseLeaderRecord(FormatLeaderRecord(record)));
  EXPECT_EQ(read, record);
}

TEST(LeaderRecordTest, RefusesWhatNoMasterHasWritten) {
  for (const char* text : {
           "",
           "term=7",
           "term=7 candidate=0000000000c0ffee address=",
           "term=7 candidate=0000000000c0ffee address=a:1 more",
           "term=0 candidate=0000000000c0ffee address=a:1",
           "term=+7 candidate=0000000000c0ffee address=a:1",
           "term=4294967296 candidate=0000000000c0ffee address=a:1",
           "term=4294901761 candidate=0000000000c0ffee address=a:1",
           "term=7 candidate=c0ffee address=a:1",
           "term=7 candidate=000000000000000x address=a:1",
           "candidate=0000000000c0ffee term=7 address=a:1",
       }) {
    EXPECT_THAT(ParseLeaderRecord(text), Fails(absl::StatusCode::kDataLoss, ErrorReason::kBadFrame))
        << text;
  }
  EXPECT_THAT(
      ParseLeaderRecord("term=7 candidate=0000000000c0ffee address=" + std::string(5000, 'x')),
      StatusIs(absl::StatusCode::kDataLoss));
  for (const char* text : {"", " 7", "7 ", "0", "-1", "7.5", "0x7", "99999999999"}) {
    EXPECT_THAT(ParseTerm(text), StatusIs(absl::StatusCode::kDataLoss)) << text;
  }
}

TEST(ElectionOptionsTest, AreCheckedWithAHint) {
  const ElectionOptions good{.prefix = "/moonpool/c", .address = "10.0.0.1:7400"};
  EXPECT_THAT(Validate(good), IsOk());
  const auto refuses = [&good](auto change) {
    ElectionOptions options = good;
    change(options);
    const absl::Status status = Validate(options);
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument));
    EXPECT_NE(Describe(status).find(';'), std::string::npos) << "no hint: " << Describe(status);
  };
  refuses([](ElectionOptions& o) { o.prefix = ""; });
  refuses([](ElectionOptions& o) { o.prefix = "/"; });
  refuses([](ElectionOptions& o) { o.prefix = "moonpool"; });
  refuses([](ElectionOptions& o) { o.prefix = "/moonpool/"; });
  refuses([](ElectionOptions& o) { o.prefix = "/moon pool"; });
  refuses([](ElectionOptions& o) { o.address = "0.0.0.0:7400"; });
  refuses([](ElectionOptions& o) { o.address = "host:0"; });
  refuses([](ElectionOptions& o) { o.lease = absl::Milliseconds(2500); });
  refuses([](ElectionOptions& o) { o.lease = absl::ZeroDuration(); });
  refuses([](ElectionOptions& o) { o.lease = absl::Minutes(2); });
}
}  // namespace
}  // namespace moonpool::master
