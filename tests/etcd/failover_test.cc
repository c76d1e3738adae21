// Three processes that stand for election at a real etcd: killed, stopped, cut off from it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "common/error.h"
#include "tests/etcd/etcd_process.h"

namespace moonpool::etcd_tests {
namespace {

using ::testing::HasSubstr;

struct Reading {
  std::vector<std::string> lines;
  std::map<int64_t, std::pair<int64_t, int64_t>> led;  // reign -> first look, last deadline
  int64_t reign = 0;                                   // as of the last look; 0 = silent
  uint32_t term = 0;                                   // of the last "leader"
  int64_t reign_of_term = 0;
  std::string follows;  // of the last "follower"
};

Reading ReadLines(std::vector<std::string> lines) {
  Reading reading;
  reading.lines = std::move(lines);
  for (const std::string& line : reading.lines) {
    std::istringstream words(line);
    std::string what;
    words >> what;
    if (what == "leads") {
      int64_t now = 0;
      int64_t deadline = 0;
      words >> reading.reign >> now >> deadline;
      auto& [first, last] = reading.led.try_emplace(reading.reign, now, deadline).first->second;
      last = std::max(last, deadline);
    } else if (what == "silent") {
      reading.reign = 0;
    } else if (what == "lost") {
      int64_t now = 0;
      words >> now;
      for (auto& [reign, led] : reading.led) led.second = std::min(led.second, now);
      reading.reign = 0;
    } else if (what == "leader") {
      words >> reading.term >> reading.reign_of_term;
    } else if (what == "follower") {
      reading.follows.clear();
      words >> reading.follows;
    }
  }
  return reading;
}

Reading Read(const std::string& path) {
  std::vector<std::string> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line) && !file.eof();) lines.push_back(line);
  return ReadLines(std::move(lines));
}

class FailoverTest : public EtcdTest {
 protected:
  void SetUp() override {
    EtcdTest::SetUp();
    if (IsSkipped()) return;
    etcd_ = EtcdProcess::Start({});
    ASSERT_NE(etcd_, nullptr);
    for (size_t i = 0; i < 3; ++i) StartCandidate();
  }
  void TearDown() override {
    if (etcd_ != nullptr && !HasFatalFailure()) ExpectOneLeaderAtATime();
    for (auto& candidate : candidates_) candidate->Signal(SIGCONT);
  }

  void StartCandidate() {
    const size_t i = candidates_.size();
    auto candidate = dev::ChildProcess::Start({.name = Address(i),
                                               .program = MOONPOOL_CANDIDATE_PROGRAM,
                                               .args = {etcd_->endpoint(), "/t", Address(i)},
                                               .log_path = dir_.path() + "/" + Address(i) + ".log",
                                               .output_path = Output(i)});
    ASSERT_TRUE(candidate.ok()) << Describe(candidate.status());
    candidates_.push_back(*std::move(candidate));
  }
  static std::string Address(size_t i) { return absl::StrCat("m", i, ":1"); }
  std::string Output(size_t i) const { return absl::StrCat(dir_.path(), "/", Address(i), ".out"); }
  Reading Of(size_t i) const { return Read(Output(i)); }
  std::string Log(size_t i) const {
    return dev::TailOfFile(dir_.path() + "/" + Address(i) + ".log", 50);
  }

  // The candidate that leads, `former` aside.
  std::optional<size_t> AwaitLeader(std::optional<size_t> former = std::nullopt) {
    std::optional<size_t> leader;
    Eventually([&] {
      for (size_t i = 0; i < candidates_.size(); ++i) {
        const Reading reading = Of(i);
        // The event and the look come from two threads: both are to be there.
        const bool leads = reading.reign != 0 && reading.reign == reading.reign_of_term;
        if (i != former && leads) leader = i;
      }
      return leader.has_value();
    });
    if (!leader.has_value()) {
      for (size_t i = 0; i < candidates_.size(); ++i) {
        ADD_FAILURE() << Address(i) << " does not lead:\n" << Log(i);
      }
    }
    return leader;
  }
  bool AwaitFollower(size_t follower, size_t leader) {
    return Eventually([&] { return Of(follower).follows == Address(leader); });
  }
  void ExpectOneLeaderAtATime() const {
    std::map<int64_t, std::pair<int64_t, int64_t>> reigns;
    for (size_t i = 0; i < candidates_.size(); ++i) {
      for (const auto& [reign, led] : Of(i).led) {
        EXPECT_TRUE(reigns.emplace(reign, led).second) << "reign " << reign << " led by two";
      }
    }
    const std::pair<int64_t, int64_t>* before = nullptr;
    for (const auto& [reign, led] : reigns) {
      if (before != nullptr) {
        EXPECT_LE(before->second, led.first) << "reign " << reign;
      }
      before = &led;
    }
  }

  const TempDir dir_;
  std::unique_ptr<EtcdProcess> etcd_;
  std::vector<std::unique_ptr<dev::ChildProcess>> candidates_;
};

TEST_F(FailoverTest, WhenTheLeaderIsKilledAnotherLeadsInAHigherTerm) {
  const auto first = AwaitLeader();
  ASSERT_TRUE(first.has_value());
  for (size_t i = 0; i < candidates_.size(); ++i) {
    EXPECT_TRUE(i == *first || AwaitFollower(i, *first));
  }
  const Reading before = Of(*first);
  candidates_[*first]->Signal(SIGKILL);
  ASSERT_TRUE(candidates_[*first]->WaitForExit(kPatience));
  const auto second = AwaitLeader(first);
  ASSERT_TRUE(second.has_value());
  EXPECT_GT(Of(*second).term, before.term);
}

TEST_F(FailoverTest, ALeaderThatWasStoppedIsSilentAsSoonAsItGoesOn) {
  const auto first = AwaitLeader();
  ASSERT_TRUE(first.has_value());
  candidates_[*first]->Signal(SIGSTOP);
  const auto second = AwaitLeader(first);
  ASSERT_TRUE(second.has_value());
  const size_t lines = Of(*first).lines.size();
  const int64_t continued = absl::ToUnixNanos(clock_.Now());
  candidates_[*first]->Signal(SIGCONT);
  EXPECT_TRUE(AwaitFollower(*first, *second));
  std::vector<std::string> after;
  // Its two threads go on in any order.
  const auto has_said = [&](const std::string& what) {
    return std::any_of(after.begin(), after.end(),
                       [&](const std::string& line) { return line.starts_with(what); });
  };
  EXPECT_TRUE(Eventually([&] {
    after = Of(*first).lines;
    after.erase(after.begin(), after.begin() + static_cast<std::ptrdiff_t>(lines));
    return has_said("silent ") && has_said("lost ");
  }));
  for (const auto& [reign, led] : ReadLines(after).led) {
    EXPECT_LT(led.first, continued) << "it led in reign " << reign;
  }
}

TEST_F(FailoverTest, ALeaderThatResignsIsFollowedAtOnce) {
  const auto first = AwaitLeader();
  ASSERT_TRUE(first.has_value());
  const Reading before = Of(*first);
  candidates_[*first]->Signal(SIGTERM);
  ASSERT_TRUE(candidates_[*first]->WaitForExit(kPatience));
  EXPECT_EQ(candidates_[*first]->Poll(), 0);
  const auto second = AwaitLeader(first);
  ASSERT_TRUE(second.has_value());
  EXPECT_GT(Of(*second).term, before.term);
  EXPECT_THAT(Of(*first).lines, ::testing::Contains(HasSubstr("lost ")));
}

TEST_F(FailoverTest, WhileEtcdIsAwayNobodyNewLeadsAndAfterwardsAllIsAsBefore) {
  const auto first = AwaitLeader();
  ASSERT_TRUE(first.has_value());
  const int64_t reign = Of(*first).reign;
  const uint32_t term = Of(*first).term;
  etcd_->Kill();
  EXPECT_TRUE(Eventually([&] { return Of(*first).reign == 0; })) << "it does not fall silent";
  EXPECT_THAT(Log(*first), HasSubstr("falls silent at the end of its lease"));
  for (size_t i = 0; i < candidates_.size(); ++i) EXPECT_EQ(Of(i).reign, 0);
  ASSERT_TRUE(etcd_->Restart());
  const auto second = AwaitLeader();
  ASSERT_TRUE(second.has_value());
  // etcd gives each lease its whole length again: unless this machine is very slow it is the same
  // one, and then in the same reign and term.
  if (second == first && Of(*first).reign == reign) {
    EXPECT_EQ(Of(*first).term, term);
  } else {
    EXPECT_GT(Of(*second).term, term);
  }
}

TEST_F(FailoverTest, AnEtcdThatIsStoppedForLongerThanALeaseSilencesTheLeader) {
  const auto first = AwaitLeader();
  ASSERT_TRUE(first.has_value());
  etcd_->Signal(SIGSTOP);
  EXPECT_TRUE(Eventually([&] { return Of(*first).reign == 0; }));
  etcd_->Signal(SIGCONT);
  EXPECT_TRUE(AwaitLeader().has_value());
}

}  // namespace
}  // namespace moonpool::etcd_tests
