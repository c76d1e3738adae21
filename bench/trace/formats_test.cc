#include "bench/trace/formats.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "common/random.h"
#include "common/testing/status_matchers.h"

namespace moonpool::trace {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr absl::string_view kConversation =
    R"({"timestamp": 0, "input_length": 1100, "output_length": 5, "hash_ids": [0, 1, 2]}
{"timestamp": 1500, "input_length": 600, "output_length": 7, "hash_ids": [0, 9]}

)";

constexpr absl::string_view kSession =
    R"({"id": "s", "block_size": 64, "requests": [
  {"t": 0.0, "type": "n", "in": 100, "out": 3, "hash_ids": [1, 2]},
  {"t": 10.5, "type": "subagent", "requests": [
    {"t": 0.5, "type": "s", "in": 50, "out": 1, "hash_ids": [7]},
    {"t": 30, "type": "s", "in": 60, "out": 1, "hash_ids": []}]},
  {"t": 20, "type": "n", "in": 130, "out": 4, "hash_ids": [1, 2, 3]}]})";

TEST(ConversationTrace, IsRead) {
  ASSERT_OK_AND_ASSIGN(const Trace trace, ParseConversationTrace(kConversation));
  EXPECT_EQ(trace.block_tokens, 512u);
  ASSERT_EQ(trace.requests.size(), 2u);
  EXPECT_EQ(trace.requests[1].arrival, absl::Milliseconds(1500));
  EXPECT_EQ(trace.requests[1].input_tokens, 600u);
  EXPECT_EQ(trace.requests[1].output_tokens, 7u);
  EXPECT_THAT(trace.requests[0].blocks, ElementsAre(0, 1, 2));
}

TEST(AgentSession, SubAgentsAreFlattenedInOrderOfTime) {
  ASSERT_OK_AND_ASSIGN(const Trace trace, ParseAgentSession(kSession));
  EXPECT_EQ(trace.block_tokens, 64u);
  ASSERT_EQ(trace.requests.size(), 4u);
  EXPECT_EQ(trace.requests[1].arrival, absl::Seconds(11));
  EXPECT_THAT(trace.requests[1].blocks, ElementsAre(7));
  EXPECT_THAT(trace.requests[2].blocks, ElementsAre(1, 2, 3));
  EXPECT_EQ(trace.requests[3].arrival, absl::Milliseconds(40500));
  EXPECT_THAT(trace.requests[3].blocks, IsEmpty());
}

struct BadInput {
  std::string text;
  std::string cause;
};

TEST(ConversationTrace, BadLinesAreNamed) {
  const std::string good =
      R"({"timestamp": 0, "input_length": 1, "output_length": 1, "hash_ids": [0]})";
  const auto line = [](absl::string_view time, absl::string_view input, absl::string_view ids) {
    return absl::StrCat(R"({"timestamp": )", time, R"(, "input_length": )", input,
                        R"(, "output_length": 1, "hash_ids": )", ids, "}");
  };
  const BadInput inputs[] = {
      {"{", "not JSON, at byte"},
      {"\x01", "not JSON"},
      {"[1]", "expected a JSON object"},
      {"{}", "\"timestamp\""},
      {line("-1", "1", "[]"), "\"timestamp\": expected a time"},
      {line("1e300", "1", "[]"), "\"timestamp\": expected a time"},
      {line("\"now\"", "1", "[]"), "\"timestamp\": expected a time"},
      {line("1", "-5", "[]"), "\"input_length\": expected an integer"},
      {line("1", "4294967296", "[]"), "\"input_length\": expected an integer"},
      {line("1", "1.5", "[]"), "\"input_length\": expected an integer"},
      {line("1", "1", "{}"), "\"hash_ids\": expected an array"},
      {line("1", "1", "[1, -2]"), "\"hash_ids\": expected block ids"},
      {line("1", "1", "[1099511627776]"), "\"hash_ids\": expected block ids"},
      {line("1", "1", std::string(100000, '[')), "not JSON"},
  };
  for (const BadInput& input : inputs) {
    const auto trace = ParseConversationTrace(absl::StrCat(good, "\n", input.text, "\n", good));
    EXPECT_THAT(trace, StatusIs(absl::StatusCode::kInvalidArgument)) << input.text;
    EXPECT_THAT(std::string(trace.status().message()), HasSubstr("line 2"));
    EXPECT_THAT(std::string(trace.status().message()), HasSubstr(input.cause));
  }
  EXPECT_THAT(ParseConversationTrace("\n\n"), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(AgentSession, BadSessionsSayWhy) {
  std::string nested = R"({"t": 0, "in": 1, "out": 1, "hash_ids": []})";
  for (int i = 0; i < 50; ++i) nested = absl::StrCat(R"({"t": 0, "requests": [)", nested, "]}");
  const BadInput inputs[] = {
      {"", "not JSON"},
      {"3", "expected a JSON object"},
      {R"({"requests": []})", "\"block_size\""},
      {R"({"block_size": 0, "requests": []})", "\"block_size\": is 0"},
      {R"({"block_size": 64})", "\"requests\": expected an array"},
      {R"({"block_size": 64, "requests": [7]})", "request 0: expected a JSON object"},
      {R"({"block_size": 64, "requests": [{"t": 1}]})", "request 0: field \"in\""},
      {absl::StrCat(R"({"block_size": 64, "requests": [)", nested, "]}"), "nested too deeply"},
      {std::string(1000000, '['), "not JSON"},
  };
  for (const BadInput& input : inputs) {
    const auto trace = ParseAgentSession(input.text);
    EXPECT_THAT(trace, StatusIs(absl::StatusCode::kInvalidArgument));
    EXPECT_THAT(std::string(trace.status().message()), HasSubstr(input.cause));
  }
}

TEST(Formats, DamagedInputNeverCrashes) {
  Random random(1);
  for (int i = 0; i < 20000; ++i) {
    for (const absl::string_view source : {kConversation, kSession}) {
      std::string text(source.substr(0, random.Below(source.size()) + 1));
      for (uint64_t k = random.Below(4); k > 0; --k) {
        text[random.Below(text.size())] = static_cast<char>(random.Below(256));
      }
      if (auto trace = ParseConversationTrace(text); trace.ok()) {
        EXPECT_FALSE(trace->requests.empty());
      }
      if (auto trace = ParseAgentSession(text); trace.ok()) {
        EXPECT_GT(trace->block_tokens, 0u);
      }
    }
  }
}

}  // namespace
}  // namespace moonpool::trace
