// A journal that cannot grow is told to the master, and to people.
#include <gmock/gmock.h>

#include "common/testing/status_matchers.h"
#include "storage_node/link/testing/master_link_fixture.h"

namespace moonpool::storage_node {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::SizeIs;

class BoundedJournal final : public SealJournal {
 public:
  absl::StatusOr<JournalEntry> Append(const transport::SealRecord&) override { return kNoEntry; }
  absl::StatusOr<JournalEntry> AppendTaken(Generation, const Extent&) override { return kNoEntry; }
  void Demote(JournalEntry) override {}
  void Erase(JournalEntry) override {}
  void NoteTerm(Term) override {}
  JournalRoom Room() override { return room; }

  JournalRoom room;
};

struct HasJournal {
  BoundedJournal journal;
};

class JournalRoomTest : private HasJournal, public MasterLinkTest {
 protected:
  JournalRoomTest() : MasterLinkTest({}, &journal) {}

  v1::Heartbeat NextHeartbeat(absl::Duration after = kHeartbeat) {
    const LinkOutput out = TickAfter(after);
    EXPECT_THAT(out.send, SizeIs(1));
    const v1::Heartbeat heartbeat = out.send[0].heartbeat();
    Receive(Ack(heartbeat.sequence()));
    return heartbeat;
  }
  void Fill(uint64_t parts_max) {
    journal.room = {.parts_max = parts_max,
                    .why = MakeError(absl::StatusCode::kResourceExhausted, ErrorReason::kNoSpace,
                                     "1048576 more bytes do not fit", {.hint = "make it larger"})};
  }
  void Empty() { journal.room = {}; }
  double Gauge() const { return metrics_.journal_full.value(); }
};

TEST_F(JournalRoomTest, OneThatGrowsIsNotSpokenOf) {
  GoLive();
  Receive(Ack(1));
  EXPECT_FALSE(NextHeartbeat().has_parts_max());
  EXPECT_EQ(Gauge(), 0);
}

TEST_F(JournalRoomTest, OneThatCannotGrowIsToldWithEachHeartbeatAndLoggedNowAndThen) {
  GoLive();
  Receive(Ack(1));
  Fill(42);
  const auto warnings = [&] {
    int count = 0;
    for (const std::string& line : log_.lines()) {
      if (line.find("journal cannot grow") == std::string::npos) continue;
      EXPECT_THAT(line, HasSubstr("1048576 more bytes do not fit"));
      EXPECT_THAT(line, HasSubstr("make it larger"));
      ++count;
    }
    return count;
  };
  for (int i = 0; i < 100; ++i) EXPECT_EQ(NextHeartbeat().parts_max(), 42u);
  EXPECT_EQ(warnings(), 1);
  EXPECT_EQ(Gauge(), 1);
  for (int i = 0; i < 600; ++i) NextHeartbeat();
  EXPECT_EQ(warnings(), 2);
  Empty();
  EXPECT_FALSE(NextHeartbeat().has_parts_max());
  EXPECT_EQ(Gauge(), 0);
  EXPECT_THAT(log_.lines(), Contains(HasSubstr("room again")));
  Fill(0);
  EXPECT_TRUE(NextHeartbeat().has_parts_max());
  EXPECT_EQ(warnings(), 3);
}

}  // namespace
}  // namespace moonpool::storage_node
