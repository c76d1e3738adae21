#include <string>

#include "cli/output/fields.h"
#include "cli/output/key_text.h"
#include "cli/output/progress.h"
#include "cli/output/table.h"
#include "cli/output/wrap.h"
#include "common/error.h"
#include "common/testing/fake_clock.h"
#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace moonpool::cli {
namespace {

TEST(KeyText, EveryByteComesBack) {
  std::string key;
  for (int byte = 0; byte < 256; ++byte) key += static_cast<char>(byte);
  ASSERT_OK_AND_ASSIGN(const std::string back, KeyFromText(KeyToText(key)));
  EXPECT_EQ(back, key);
}

TEST(KeyText, OrdinaryKeysStandAsTheyAre) {
  EXPECT_EQ(KeyToText("model/7 block-1"), "model/7 block-1");
  EXPECT_EQ(KeyToText(std::string("a\\b\0c", 5)), "a\\\\b\\x00c");
}

TEST(KeyText, BadEscapesAreRefused) {
  for (const char* text : {"\\", "\\n", "\\x", "\\x4", "\\xzz", "tail\\"}) {
    EXPECT_EQ(ReasonOf(KeyFromText(text).status()), ErrorReason::kBadArgument) << text;
  }
}

Table SampleTable() {
  Table table({{"name"},
               {"bytes", Align::kRight},
               {"key", Align::kLeft, Fit::kShrink},
               {"note", Align::kLeft, Fit::kDrop}});
  table.AddRow({"n1", "12", "a-very-long-key-with-an-end", "x"});
  table.AddRow({"node-2", "4096", "short", "remark"});
  return table;
}

TEST(Table, ColumnsAreAsWideAsTheirContent) {
  EXPECT_EQ(SampleTable().Render(0),
            "name    bytes  key                          note\n"
            "n1         12  a-very-long-key-with-an-end  x\n"
            "node-2   4096  short                        remark\n");
}

TEST(Table, ShrinksKeysInTheMiddle) {
  EXPECT_EQ(SampleTable().Render(48),
            "name    bytes  key                        note\n"
            "n1         12  a-very-long-…-with-an-end  x\n"
            "node-2   4096  short                      remark\n");
}

TEST(Table, DropsColumnsBeforeKeysBecomeUnreadable) {
  EXPECT_EQ(SampleTable().Render(40),
            "name    bytes  key\n"
            "n1         12  a-very-long-…-with-an-end\n"
            "node-2   4096  short\n");
}

TEST(Table, BecomesParagraphsBeforeKeysBecomeUnreadable) {
  EXPECT_EQ(SampleTable().Render(26),
            "name   n1\n"
            "bytes  12\n"
            "key    a-very-long-key-wit\n"
            "       h-an-end\n"
            "note   x\n"
            "\n"
            "name   node-2\n"
            "bytes  4096\n"
            "key    short\n"
            "note   remark\n");
}

TEST(Table, AColumnMayShrinkFirstAndGoThen) {
  Table table({{"key"}, {"parent", Align::kLeft, Fit::kShrinkThenDrop}});
  table.AddRow({"k", std::string(10, 'a') + std::string(20, 'b')});
  EXPECT_EQ(table.Render(30), "key  parent\nk    aaaaaaaaaabb…bbbbbbbbbbbb\n");
  EXPECT_EQ(table.Render(20), "key\nk\n");
}

TEST(Table, SentencesGoOnBeneathThemselves) {
  Table table({{"key"}, {"why", Align::kLeft, Fit::kWrap}});
  table.AddRow({"k", "never stored, or longer ago than the record reaches"});
  table.AddRow({"l", ""});
  EXPECT_EQ(table.Render(32),
            "key  why\n"
            "k    never stored, or longer ago\n"
            "     than the record reaches\n"
            "l\n");
}

TEST(Table, NamesFromElsewhereCannotDriveTheTerminal) {
  Table table({{"node"}});
  table.AddRow({"a\x1b[31m\nb\xe6"});
  EXPECT_EQ(table.Render(0), "node\na\\x1b[31m\\x0ab\\xe6\n");
}

TEST(Table, EveryLineFits) {
  for (size_t width = 15; width < 60; ++width) {
    const std::string text = SampleTable().Render(width);
    for (size_t start = 0, end; start < text.size(); start = end + 1) {
      end = text.find('\n', start);
      EXPECT_LE(DisplayWidth(text.substr(start, end - start)), width) << text;
    }
  }
}

TEST(WrapText, BreaksAtSpacesElseWhereItMust) {
  using testing::ElementsAre;
  EXPECT_THAT(WrapText("one two three", 0), ElementsAre("one two three"));
  EXPECT_THAT(WrapText("one two three", 7), ElementsAre("one two", "three"));
  EXPECT_THAT(WrapText("one two three", 6), ElementsAre("one", "two", "three"));
  EXPECT_THAT(WrapText("abcdefgh ij", 4), ElementsAre("abcd", "efgh", "ij"));
  EXPECT_THAT(WrapText("", 4), ElementsAre(""));
}

TEST(Fields, ValuesStandUnderEachOther) {
  Fields fields;
  fields.Add("a", "one two three");
  fields.Add("name", "x\ny");
  EXPECT_EQ(fields.Render(0), "a     one two three\nname  x\\x0ay\n");
  EXPECT_EQ(fields.Render(14), "a     one two\n      three\nname  x\\x0ay\n");
}

class ProgressTest : public testing::Test {
 protected:
  ~ProgressTest() override { std::fclose(file_); }
  std::string Text() {
    std::fflush(file_);
    std::string text(static_cast<size_t>(std::ftell(file_)), '\0');
    std::rewind(file_);
    text.resize(std::fread(text.data(), 1, text.size(), file_));
    return text;
  }
  FakeClock clock_;
  FILE* file_ = std::tmpfile();
};

TEST_F(ProgressTest, ShortWorkSaysNothingInAFile) {
  Progress progress("replay", 10, clock_, file_);
  for (uint64_t i = 0; i <= 10; ++i) progress.Update(i, "note");
  progress.Finish();
  EXPECT_EQ(Text(), "");
}

TEST_F(ProgressTest, LongWorkWritesALineNowAndThen) {
  Progress progress("replay", 10, clock_, file_);
  for (uint64_t i = 0; i <= 10; ++i) {
    progress.Update(i, "hit rate 30%");
    clock_.Advance(absl::Seconds(1));
  }
  progress.Finish();
  EXPECT_EQ(Text(), "replay: 5/10  hit rate 30%\nreplay: 10/10  hit rate 30%\n");
}

}  // namespace
}  // namespace moonpool::cli
