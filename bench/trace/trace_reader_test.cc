#include "bench/trace/trace_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <lzma.h>

#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "bench/trace/byte_source.h"
#include "bench/trace/tar_reader.h"
#include "common/random.h"
#include "common/testing/status_matchers.h"

namespace moonpool::trace {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string TarMemberBytes(const std::string& name, const std::string& content, char type = '0') {
  std::string header(512, '\0');
  header.replace(0, name.size(), name);
  header.replace(124, 11, absl::StrFormat("%011o", content.size()));
  header[156] = type;
  header.replace(257, 5, "ustar");
  header.replace(148, 8, "        ");
  const int sum = std::accumulate(header.begin(), header.end(), 0);
  header.replace(148, 7, absl::StrFormat("%06o", sum) + std::string(1, '\0'));
  return header + content + std::string((512 - content.size() % 512) % 512, '\0');
}

std::string Session(int first_block) {
  return absl::StrFormat(R"({"block_size": 64, "requests": [
      {"t": 0, "in": 64, "out": 1, "hash_ids": [%d]},
      {"t": 90, "in": 128, "out": 1, "hash_ids": [%d, %d]}]})",
                         first_block, first_block, first_block + 1);
}

std::string Archive() {
  return TarMemberBytes("traces", "", '5') + TarMemberBytes("traces/1.json", Session(1)) +
         TarMemberBytes("pax", "30 mtime=1\n", 'x') + TarMemberBytes("README", "not a session") +
         TarMemberBytes("traces/2.json", Session(1)) + std::string(1024, '\0');
}

std::string Xz(const std::string& text) {
  std::string out(lzma_stream_buffer_bound(text.size()), '\0');
  size_t size = 0;
  EXPECT_EQ(lzma_easy_buffer_encode(6, LZMA_CHECK_CRC64, nullptr,
                                    reinterpret_cast<const uint8_t*>(text.data()), text.size(),
                                    reinterpret_cast<uint8_t*>(out.data()), &size, out.size()),
            LZMA_OK);
  out.resize(size);
  return out;
}

class TraceReaderTest : public testing::Test {
 protected:
  TraceReaderTest() : folder_(MakeFolder()) {}
  ~TraceReaderTest() override { std::filesystem::remove_all(folder_); }

  std::string Write(const std::string& name, const std::string& content) {
    std::ofstream(folder_ / name, std::ios::binary) << content;
    return (folder_ / name).string();
  }

  const std::filesystem::path folder_;

 private:
  static std::filesystem::path MakeFolder() {
    std::string path = testing::TempDir() + "trace_reader_XXXXXX";
    EXPECT_NE(mkdtemp(path.data()), nullptr);
    return path;
  }
};

void ExpectTwoSessions(const Trace& trace) {
  EXPECT_EQ(trace.block_tokens, 64u);
  ASSERT_EQ(trace.requests.size(), 4u);
  // One starts at 0, the other a minute later; equal ids of two sessions are different blocks.
  EXPECT_EQ(trace.requests[1].arrival, absl::Seconds(60));
  EXPECT_EQ(trace.requests[2].arrival, absl::Seconds(90));
  EXPECT_THAT(trace.requests[2].blocks, ElementsAre(1, 2));
  EXPECT_NE(trace.requests[1].blocks[0], trace.requests[0].blocks[0]);
  EXPECT_EQ(trace.requests[1].blocks[0], trace.requests[3].blocks[0]);
}

TEST_F(TraceReaderTest, TheContentTellsTheFormat) {
  ASSERT_OK_AND_ASSIGN(
      const Trace conversation,
      ReadTrace(Write(
          "a", R"({"timestamp": 3, "input_length": 1, "output_length": 1, "hash_ids": [4]})")));
  EXPECT_EQ(conversation.name, "a");
  EXPECT_EQ(conversation.block_tokens, 512u);
  ASSERT_OK_AND_ASSIGN(const Trace session, ReadTrace(Write("b", Session(1))));
  EXPECT_EQ(session.requests.size(), 2u);
  ASSERT_OK_AND_ASSIGN(const Trace tar, ReadTrace(Write("c", Archive())));
  ExpectTwoSessions(tar);
  ASSERT_OK_AND_ASSIGN(const Trace tar_xz, ReadTrace(Write("d", Xz(Archive()))));
  ExpectTwoSessions(tar_xz);
}

TEST_F(TraceReaderTest, AFolderIsReadInOrderOfName) {
  Write("2.json", Session(1));
  Write("1.json", Session(1));
  Write("notes.txt", "not a session");
  ASSERT_OK_AND_ASSIGN(const Trace trace, ReadTrace(folder_.string()));
  ExpectTwoSessions(trace);
}

TEST_F(TraceReaderTest, TheLimitTakesTheFirstByArrival) {
  const std::string path = Write("a", Archive());
  ASSERT_OK_AND_ASSIGN(const Trace trace, ReadTrace(path, {.limit_requests = 2}));
  ASSERT_EQ(trace.requests.size(), 2u);
  EXPECT_EQ(trace.requests[1].arrival, absl::Seconds(60));
}

TEST_F(TraceReaderTest, ErrorsNameFileAndCause) {
  const std::string missing = (folder_ / "missing").string();
  EXPECT_THAT(ReadTrace(missing), StatusIs(absl::StatusCode::kNotFound));
  const struct {
    std::string content;
    std::string cause;
  } inputs[] = {
      {"", "neither a conversation trace"},
      {"hello", "neither a conversation trace"},
      {TarMemberBytes("a.json", "{}"), "a.json: field"},
      {Archive().substr(0, 1000), "tar archive ends too early"},
      {Xz(Archive().substr(0, 2000)), "tar archive ends too early"},
      {Xz(Archive()).substr(0, 100), "xz data ends too early"},
      {Xz(Archive()).replace(40, 1, "\xff"), "xz data is damaged"},
      {Xz("hello"), "tar archive ends too early"},
      {TarMemberBytes("a.json", Session(1)) +
           TarMemberBytes("b.json", R"({"block_size": 16, "requests": []})") +
           std::string(512, '\0'),
       "b.json: its block_size is not that"},
      {std::string(512, '\0').replace(257, 5, "ustar"), "not a ustar header"},
      {R"({"block_size": 16, "requests": []})", "no requests"},
  };
  for (const auto& input : inputs) {
    const auto trace = ReadTrace(Write("bad", input.content));
    EXPECT_THAT(trace, StatusIs(absl::StatusCode::kInvalidArgument));
    EXPECT_THAT(std::string(trace.status().message()), HasSubstr(input.cause));
    EXPECT_THAT(std::string(trace.status().message()), HasSubstr("bad"));
  }
}

TEST(TarReader, DamageIsAnErrorAndSizesAreBounded) {
  const std::string archive = Archive();
  Random random(1);
  for (int i = 0; i < 20000; ++i) {
    std::string text = archive.substr(0, random.Below(archive.size()) + 1);
    text[random.Below(text.size())] = static_cast<char>(random.Below(256));
    StringSource source(text);
    TarReader reader(source, 10000);
    for (int members = 0;; ++members) {
      ASSERT_LT(members, 10);
      const auto member = reader.Next();
      if (!member.ok() || !*member) break;
      EXPECT_LE((*member)->content.size(), 10000u);
    }
  }
  StringSource source(archive);
  TarReader reader(source, 10);
  EXPECT_THAT(reader.Next(), StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace moonpool::trace
