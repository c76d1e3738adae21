#include "common/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "common/log_limiter.h"
#include "common/testing/fake_clock.h"
#include "common/testing/test_logger.h"

namespace moonpool {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Optional;

TEST(Log, TextLineIsMessageThenPairs) {
  EXPECT_EQ(FormatLogText("node joined", {{"node", "n1"},
                                          {"bytes", uint64_t{4096}},
                                          {"full", false},
                                          {"took", absl::Milliseconds(1500)}}),
            "node joined node=n1 bytes=4096 full=false took=1.5s");
}

TEST(Log, TextQuotesWhatWouldConfuseAReader) {
  EXPECT_EQ(FormatLogText("m", {{"a", "two words"}, {"b", ""}, {"c", "x=\"y\""}}),
            R"(m a="two words" b="" c="x=\"y\"")");
}

TEST(Log, NoByteOfAValueBreaksTheLine) {
  const std::string hostile("a\nb\x1b[31m\0z\xff", 11);
  const std::string line = FormatLogText("m", {{"key", hostile}});
  EXPECT_EQ(line, "m key=\"a\\u000ab\\u001b[31m\\u0000z\\u00ff\"");
}

TEST(Log, Utf8PassesThroughAndBrokenUtf8IsEscaped) {
  EXPECT_EQ(FormatLogText("m", {{"k", "\xe6\x9c\x88"}}), "m k=\"\xe6\x9c\x88\"");
  EXPECT_EQ(FormatLogText("m", {{"k", "\xe6\x9c"}}), "m k=\"\\u00e6\\u009c\"");
}

TEST(Log, JsonMembersKeepTheirTypes) {
  EXPECT_EQ(FormatLogJson("a \"b\"", {{"n", 3}, {"ok", true}, {"s", "x\ty"}, {"bad", NAN}}),
            R"("message":"a \"b\"","n":3,"ok":true,"s":"x\u0009y","bad":"nan")");
}

TEST(Log, JsonNamesAreUnique) {
  EXPECT_EQ(FormatLogJson("m", {{"program", "x"}, {"n", 1}, {"n", 2}, {"n_", 3}}),
            R"("message":"m","program_":"x","n":1,"n_":2,"n__":3)");
}

TEST(Log, LevelsBelowTheOneSetAreDropped) {
  TestLogger capture;
  Logger logger(capture, LogLevel::kWarn);
  logger.Info("quiet");
  logger.Warn("loud", {{"n", 1}});
  EXPECT_THAT(capture.lines(), ElementsAre("warn loud n=1"));
  EXPECT_FALSE(logger.enabled(LogLevel::kInfo));
}

TEST(Log, StderrCarriesTimeLevelAndLine) {
  testing::internal::CaptureStderr();
  Logger(LogOptions{}, "moonpool-test").Info("hello", {{"k", "v {}"}});
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_THAT(text,
              testing::MatchesRegex("[0-9-]+T[0-9:.]+[+-][0-9:]+ info hello k=\"v \\{\\}\"\n"));
}

TEST(Log, StderrJsonIsOneObjectPerLine) {
  testing::internal::CaptureStderr();
  Logger(LogOptions{.format = LogFormat::kJson}, "moonpool-test").Error("bad", {{"n", 1}});
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_THAT(text,
              HasSubstr(R"("level":"error","program":"moonpool-test","message":"bad","n":1})"));
}

TEST(LogLimiter, AdmitsABurstThenOnePerPeriodAndCountsTheRest) {
  FakeClock clock;
  LogLimiter limiter(clock, absl::Seconds(10), /*burst=*/2);
  EXPECT_THAT(limiter.Admit(), Optional(0u));
  EXPECT_THAT(limiter.Admit(), Optional(0u));
  EXPECT_EQ(limiter.Admit(), std::nullopt);
  EXPECT_EQ(limiter.Admit(), std::nullopt);
  clock.Advance(absl::Seconds(9));
  EXPECT_EQ(limiter.Admit(), std::nullopt);
  clock.Advance(absl::Seconds(1));
  EXPECT_THAT(limiter.Admit(), Optional(3u));
  EXPECT_EQ(limiter.Admit(), std::nullopt);
}

TEST(LogLimiter, TokensDoNotPileUpBeyondTheBurst) {
  FakeClock clock;
  LogLimiter limiter(clock, absl::Seconds(1));
  clock.Advance(absl::Hours(24 * 365));
  EXPECT_TRUE(limiter.Admit().has_value());
  EXPECT_FALSE(limiter.Admit().has_value());
}

TEST(Log, NullSwallowsEverything) {
  testing::internal::CaptureStderr();
  Logger::Null().Error("nobody hears this");
  EXPECT_THAT(testing::internal::GetCapturedStderr(), IsEmpty());
}

}  // namespace
}  // namespace moonpool
