// The bytes of KV events. (tests/engines has vLLM's own classes read them.)
#include "cli/kv_events/kv_event_wire.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "cli/kv_events/msgpack_writer.h"

namespace moonpool::cli {
namespace {

using std::string_literals::operator""s;

Event Stored(std::string key, std::string parent = "") {
  return {.kind = EventKind::kStored, .key = std::move(key), .parent = std::move(parent)};
}
Event Removed(std::string key) { return {.kind = EventKind::kRemoved, .key = std::move(key)}; }

std::string EncodeBatch(absl::Span<const Event> events, double time,
                        const KvEventWireOptions& options) {
  return JoinKvEvents({EncodeKvEvents(events, options)}, 1, time).front();
}

std::string Hex(const std::string& bytes) { return absl::BytesToHexString(bytes); }

TEST(BlockHash, IsTheLastSegmentWhereThatIsHexadecimal) {
  EXPECT_EQ(Hex(BlockHashOf("model/0/00ffA1")), "00ffa1");
  EXPECT_EQ(Hex(BlockHashOf("0a0b")), "0a0b");
  EXPECT_EQ(BlockHashOf("model/block-7"), "model/block-7");
  EXPECT_EQ(BlockHashOf("a/abc"), "a/abc");  // half a byte is none
  EXPECT_EQ(BlockHashOf("a/"), "a/");
  EXPECT_EQ(BlockHashOf("\x01\x02"), "\x01\x02");
}

TEST(PageTokens, StandInTheFingerprint) {
  // As the adapters of vLLM and SGLang write theirs.
  EXPECT_EQ(PageTokensOf("page_tokens=16;dtype=bfloat16;engine=vllm;layout=0011223344556677"), 16);
  EXPECT_EQ(PageTokensOf("page_tokens=64;cp=1;dtype=float16;engine=sglang;format=1;kv=mha;"
                         "layout=page_first;model=/models/llama;pages=fp8;pp=1;tp=4"),
            64);
  EXPECT_EQ(PageTokensOf("dtype=bf16;page_tokens=16;tp=2"), 16);
  EXPECT_EQ(PageTokensOf("model=m; page_tokens=128"), 128);
  EXPECT_EQ(PageTokensOf("v1"), std::nullopt);
}

TEST(PageTokens, AreAWholeFieldAndAWholeNumber) {
  for (const char* fingerprint :
       {"page_tokens=many", "page_tokens=", "page_tokens=0", "page_tokens=-16", "page_tokens=+16",
        "page_tokens=16x", "page_tokens=1048577", "my_page_tokens=3", "page_tokens_max=3",
        "block_tokens=16", "page=16", "tag=page_tokens\\x3d16", "Page_Tokens=16"}) {
    EXPECT_EQ(PageTokensOf(fingerprint), std::nullopt) << fingerprint;
  }
}

TEST(PageTokens, OfATextThatWasCutTheLastFieldIsNotTrusted) {
  EXPECT_EQ(PageTokensOf("model=m;page_tokens=12;sha256=00ff"), std::nullopt);  // it may be 128
  EXPECT_EQ(PageTokensOf("page_tokens=128;model=a-long-n;sha256=00ff"), 128);
}

TEST(KvGroup, StandsBeforeTheHash) {
  EXPECT_EQ(KvGroupOf("g0/00ff"), 0);
  EXPECT_EQ(KvGroupOf("toy/g12/00ff"), 12);
  for (const char* key : {"00ff", "t0p0/00ff", "g/00ff", "g1", "g1/block", "g-1/00ff", "xg1/00ff",
                          "g1/0/00ff", "g1x/00ff"}) {
    EXPECT_EQ(KvGroupOf(key), std::nullopt) << key;
  }
}

TEST(Msgpack, LengthsAndNumbersTakeTheShortestForm) {
  const auto bytes = [](auto write) {
    MsgpackWriter out;
    write(out);
    return Hex(out.Take());
  };
  EXPECT_EQ(bytes([](auto& out) { out.Number(127); }), "7f");
  EXPECT_EQ(bytes([](auto& out) { out.Number(128); }), "cc80");
  EXPECT_EQ(bytes([](auto& out) { out.Number(65536); }), "ce00010000");
  EXPECT_EQ(bytes([](auto& out) { out.Number(uint64_t{1} << 40); }), "cf0000010000000000");
  EXPECT_EQ(bytes([](auto& out) { out.Array(15); }), "9f");
  EXPECT_EQ(bytes([](auto& out) { out.Array(16); }), "dc0010");
  EXPECT_EQ(bytes([](auto& out) { out.Array(65536); }), "dd00010000");
  EXPECT_EQ(bytes([](auto& out) { out.Map(16); }), "de0010");
  EXPECT_EQ(bytes([](auto& out) { out.Text(std::string(32, 'a')); }).substr(0, 6), "d92061");
  EXPECT_EQ(bytes([](auto& out) { out.Bytes("a"); }), "c40161");
  EXPECT_EQ(bytes([](auto& out) { out.Bytes(std::string(256, 'a')); }).substr(0, 8), "c5010061");
  EXPECT_EQ(bytes([](auto& out) { out.Real(1.5); }), "cb3ff8000000000000");
  EXPECT_EQ(bytes([](auto& out) { out.Nil(); }), "c0");
}

// As msgspec has encoded vLLM's KVEventBatch(ts=1.5, ..., data_parallel_rank=0).
TEST(KvEvents, AreWhatVllmWrites) {
  const Event events[] = {Stored("m/0102"), Removed("a"), Event{.kind = EventKind::kCleared}};
  EXPECT_EQ(EncodeBatch(events, 1.5, {.block_size = 16}),
            "\x93\xcb?\xf8\x00\x00\x00\x00\x00\x00\x93\x88\xa4type\xab"
            "BlockStored\xac"
            "block_hashes\x91\xc4\x02\x01\x02\xb1parent_block_hash\xc0\xa9token_ids\x90\xaa"
            "block_size\x10\xa7lora_id\xc0\xa6medium\xa8"
            "EXTERNAL\xa9lora_name\xc0\x83\xa4type\xac"
            "BlockRemoved\xac"
            "block_hashes\x91\xc4\x01"
            "a\xa6medium\xa8"
            "EXTERNAL\x81\xa4type\xb0"
            "AllBlocksCleared\x00"s);
}

TEST(KvEvents, AreWhatOlderReleasesWroteInTheOtherForm) {
  const Event events[] = {Stored("00", "01"), Removed("a"), Event{.kind = EventKind::kCleared}};
  EXPECT_EQ(EncodeBatch(events, 0, {.form = KvEventForm::kArray, .medium = "M"}),
            "\x93\xcb\x00\x00\x00\x00\x00\x00\x00\x00\x93\x97\xab"
            "BlockStored\x91\xc4\x01\x00\xc4\x01\x01\x90\x00\xc0\xa1M\x93\xac"
            "BlockRemoved\x91\xc4\x01"
            "a\xa1M\x91\xb0"
            "AllBlocksCleared\x00"s);
}

TEST(KvEvents, BlocksOfAChainThatComeOneAfterTheOtherAreOneEvent) {
  const Event events[] = {Stored("01", "00"), Stored("02", "01"), Stored("09"), Removed("01"),
                          Removed("02")};
  EXPECT_EQ(Hex(EncodeBatch(events, 0, {.form = KvEventForm::kArray, .medium = ""})),
            Hex("\x93\xcb\x00\x00\x00\x00\x00\x00\x00\x00\x93\x97\xab"
                "BlockStored\x92\xc4\x01\x01\xc4\x01\x02\xc4\x01\x00\x90\x00\xc0\xa0\x97\xab"
                "BlockStored\x91\xc4\x01\x09\xc0\x90\x00\xc0\xa0\x93\xac"
                "BlockRemoved\x92\xc4\x01\x01\xc4\x01\x02\xa0\x00"s));
}

// As msgspec has encoded vLLM's BlockStored(..., group_idx=1) and BlockRemoved(..., group_idx=0).
TEST(KvEvents, OfGroupsSayWhichAsVllmDoes) {
  const Event events[] = {Stored("g1/0102"), Removed("g0/01")};
  EXPECT_EQ(EncodeBatch(events, 0, {.medium = "M", .block_size = 16}),
            "\x93\xcb\x00\x00\x00\x00\x00\x00\x00\x00\x92\x89\xa4type\xab"
            "BlockStored\xac"
            "block_hashes\x91\xc4\x02\x01\x02\xb1parent_block_hash\xc0\xa9token_ids\x90\xaa"
            "block_size\x10\xa7lora_id\xc0\xa6medium\xa1M\xa9lora_name\xc0\xa9group_idx\x01"
            "\x84\xa4type\xac"
            "BlockRemoved\xac"
            "block_hashes\x91\xc4\x01\x01\xa6medium\xa1M\xa9group_idx\x00\x00"s);
}

TEST(KvEvents, OfOneHashInTwoGroupsAreTwo) {
  const Event events[] = {Removed("g0/01"), Removed("g1/01"), Removed("g1/02"), Removed("01")};
  const EncodedEvents encoded = EncodeKvEvents(events, {});
  EXPECT_EQ(encoded.count, 3);
  EXPECT_EQ(EncodeKvEvents(events, {.form = KvEventForm::kArray}).bytes.find("group"),
            std::string::npos);
}

TEST(KvEvents, PartsAreJoinedWhenThereAreMoreThanBatches) {
  std::vector<EncodedEvents> parts;
  for (const char* key : {"01", "02", "03", "04", "05"}) {
    const Event removed[] = {Removed(key)};
    parts.push_back(EncodeKvEvents(removed, {}));
  }
  EXPECT_EQ(JoinKvEvents(parts, 9, 0).size(), 5);
  const std::vector<std::string> two = JoinKvEvents(parts, 2, 0);
  ASSERT_EQ(two.size(), 2);
  const auto batch = [&](uint8_t count, absl::Span<const EncodedEvents> of) {
    std::string bytes = "\x93\xcb\x00\x00\x00\x00\x00\x00\x00\x00"s;
    bytes += static_cast<char>(0x90 | count);
    for (const EncodedEvents& part : of) bytes += part.bytes;
    return bytes + '\0';
  };
  EXPECT_EQ(Hex(two[0]), Hex(batch(3, absl::MakeSpan(parts).first(3))));
  EXPECT_EQ(Hex(two[1]), Hex(batch(2, absl::MakeSpan(parts).last(2))));
  EXPECT_EQ(JoinKvEvents(parts, 1, 0).size(), 1);
}

TEST(KvEvents, AreSplitIntoPartsThatAreSmallEnough) {
  std::vector<Event> events;
  for (int i = 0; i < 100; ++i) {
    events.push_back(
        Stored(absl::StrCat("block-", i), i == 0 ? "" : absl::StrCat("block-", i - 1)));
  }
  events.push_back(Removed("block-7"));
  const std::vector<EncodedEvents> parts = EncodeKvEventsInParts(events, {}, 400);
  EXPECT_GT(parts.size(), 3);
  for (const EncodedEvents& part : parts) EXPECT_LE(part.bytes.size(), 400);
  // In order, and each of them once; a part of the chain begins at the end of the one before it.
  size_t at = 0;
  for (const EncodedEvents& part : parts) {
    const size_t begin = at;
    std::string encoded;
    while (at < events.size() && encoded != part.bytes) {
      encoded = EncodeKvEvents(absl::MakeSpan(events).subspan(begin, ++at - begin), {}).bytes;
    }
    EXPECT_EQ(encoded, part.bytes);
  }
  EXPECT_EQ(at, events.size());
}

TEST(KvEvents, AnEventThatIsLargerThanAPartIsOne) {
  const std::vector<Event> events = {Removed(std::string(500, 'a')), Removed("b")};
  const std::vector<EncodedEvents> parts = EncodeKvEventsInParts(events, {}, 100);
  EXPECT_EQ(parts.size(), 2);
  EXPECT_TRUE(EncodeKvEventsInParts({}, {}, 100).empty());
}

}  // namespace
}  // namespace moonpool::cli
