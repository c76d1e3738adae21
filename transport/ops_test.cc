#include "transport/ops.h"

#include <gtest/gtest.h>

#include <array>
#include <numeric>
#include <string>
#include <vector>

#include "common/testing/status_matchers.h"
#include "transport/span_cursor.h"

namespace moonpool::transport {
namespace {

SealRecord ValidRecord(uint64_t payload_bytes) {
  SealRecord record;
  record.generation = Generation::Of(Term{1}, 1);
  record.name_space = "ns";
  record.key = "key";
  record.extent = {SegmentId{0}, 0, payload_bytes + kPartHeaderBytes};
  record.object_bytes = payload_bytes;
  return record;
}

auto IsBadArgument() {
  return Fails(absl::StatusCode::kInvalidArgument, ErrorReason::kBadArgument);
}

TEST(Ops, HeaderTellsWhatTheRecordSays) {
  SealRecord record = ValidRecord(100);
  record.payload_checksum = 7;
  record.object_bytes = 300;
  record.part_index = 1;
  record.part_count = 3;
  EXPECT_EQ(HeaderOf(record), (PartHeader{.generation = record.generation,
                                          .payload_bytes = 100,
                                          .payload_checksum = 7,
                                          .object_bytes = 300,
                                          .key_fingerprint = KeyFingerprint("ns", "key"),
                                          .part_index = 1,
                                          .part_count = 3}));
}

TEST(Ops, ImpossibleRecordsAreRefused) {
  EXPECT_THAT(Validate(ValidRecord(0)), IsOk());
  const auto with = [](auto change) {
    SealRecord record = ValidRecord(10);
    change(record);
    return Validate(record);
  };
  EXPECT_THAT(with([](auto& r) { r.generation = {}; }), IsBadArgument());
  EXPECT_THAT(with([](auto& r) { r.extent.length = kPartHeaderBytes - 1; }), IsBadArgument());
  EXPECT_THAT(with([](auto& r) { r.extent.length = UINT64_MAX; }), IsBadArgument());
  EXPECT_THAT(with([](auto& r) { r.extent.offset = UINT64_MAX; }), IsBadArgument());
  EXPECT_THAT(with([](auto& r) { r.key.clear(); }), IsBadArgument());
  EXPECT_THAT(with([](auto& r) { r.key.resize(kMaxKeyBytes + 1); }), IsBadArgument());
  EXPECT_THAT(with([](auto& r) { r.parent.resize(kMaxKeyBytes + 1); }), IsBadArgument());
  EXPECT_THAT(with([](auto& r) { r.name_space.assign(kMaxNamespaceBytes + 1, 'n'); }),
              IsBadArgument());
  EXPECT_THAT(with([](auto& r) { r.name_space = "\xff\xfe"; }), IsBadArgument());
  EXPECT_THAT(with([](auto& r) { r.name_space = "two words"; }), IsBadArgument());
  EXPECT_THAT(with([](auto& r) { r.name_space = std::string("a\0b", 3); }), IsBadArgument());
  EXPECT_THAT(with([](auto& r) { r.name_space = "ns\x1f"; }), IsBadArgument());
  EXPECT_THAT(with([](auto& r) { r.name_space = "ns\x1f\xff"; }), IsBadArgument());
  EXPECT_THAT(with([](auto& r) { r.name_space = "ns\x1fllama"; }), IsOk());
  EXPECT_THAT(with([](auto& r) { r.name_space.clear(); }), IsOk()) << "the default one";
  EXPECT_THAT(with([](auto& r) { r.part_index = r.part_count; }), IsBadArgument());
  EXPECT_THAT(with([](auto& r) { r.part_count = kMaxPartsPerReplica + 1; }), IsBadArgument());
  EXPECT_THAT(with([](auto& r) { r.replica_index = kMaxReplicas; }), IsBadArgument());
  EXPECT_THAT(with([](auto& r) { r.replicas = kMaxReplicas + 1; }), IsBadArgument());
}

TEST(Ops, BuffersMustAddUpToThePayload) {
  std::array<std::byte, 10> buffer{};
  WriteOp write{.record = ValidRecord(10), .from = {}, .status = {}};
  write.from = {ConstBytes(buffer).first(4), ConstBytes(buffer).subspan(4)};
  EXPECT_THAT(Validate(write), IsOk());
  write.from.pop_back();
  EXPECT_THAT(Validate(write), IsBadArgument());
  ReadOp read;
  read.generation = write.record.generation;
  read.extent = write.record.extent;
  read.into = {MutableBytes(buffer)};
  EXPECT_THAT(Validate(read), IsOk());
  read.into.push_back(MutableBytes(buffer));
  EXPECT_THAT(Validate(read), IsBadArgument());
}

TEST(SpanCursor, WalksOverEmptyAndUnevenSpans) {
  std::vector<std::byte> bytes(10);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = std::byte(i);
  const ConstBytes all(bytes);
  const std::vector<ConstBytes> spans = {all.first(0), all.first(3), all.subspan(3, 0),
                                         all.subspan(3)};
  SpanCursor<const std::byte> cursor{absl::MakeConstSpan(spans)};
  EXPECT_EQ(cursor.remaining(), 10u);
  size_t next = 0;
  while (cursor.remaining() > 0) {
    const ConstBytes piece = cursor.Next(2);
    ASSERT_FALSE(piece.empty());
    for (const std::byte byte : piece) EXPECT_EQ(byte, std::byte(next++));
    cursor.Advance(piece.size());
  }
  EXPECT_EQ(next, 10u);
  EXPECT_TRUE(cursor.Next(1).empty());
}

TEST(SpanCursor, FillsVectorsUpToBothBounds) {
  std::vector<std::byte> bytes(10);
  const MutableBytes all = absl::MakeSpan(bytes);
  const std::vector<MutableBytes> spans = {all.first(3), all.subspan(3, 4), all.subspan(7)};
  const SpanCursor<std::byte> cursor{absl::MakeConstSpan(spans)};
  std::array<iovec, 8> vectors;
  size_t sum = 0;
  EXPECT_EQ(cursor.FillVectors(absl::MakeSpan(vectors), 100, &sum), 3u);
  EXPECT_EQ(sum, 10u);
  EXPECT_EQ(cursor.FillVectors(absl::MakeSpan(vectors), 5, &sum), 2u);
  EXPECT_EQ(sum, 5u);
  EXPECT_EQ(vectors[1].iov_len, 2u);
  EXPECT_EQ(cursor.FillVectors(absl::MakeSpan(vectors).first(1), 100, &sum), 1u);
  EXPECT_EQ(sum, 3u);
}

}  // namespace
}  // namespace moonpool::transport
