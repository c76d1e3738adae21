// Who owns the bytes: rules R2, R3 and R7 as a client sees them.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "transport/testing/conformance_scene.h"

namespace moonpool::transport {
namespace {

constexpr size_t kSize = 100'000;

struct Ownership {
  explicit Ownership(ConformanceScene& scene) : channel(scene.Connect()) {}
  std::unique_ptr<Channel> channel;
  std::vector<std::byte> first = PatternBytes(kSize, 1);
  std::vector<std::byte> second = PatternBytes(kSize, 2);
  SealRecord older = RecordAt(0, kSize, 1);
  SealRecord newer = RecordAt(0, kSize, 2);
};

void WriteAfterSealIsIdempotent(ConformanceScene& scene) {
  Ownership o(scene);
  ASSERT_NE(o.channel, nullptr);
  ASSERT_THAT(scene.Write(*o.channel, o.older, o.first), IsOk());
  // The client never heard the answer and repeats; the bytes stay as they were sealed.
  EXPECT_THAT(scene.Write(*o.channel, o.older, o.first), IsOk());
  EXPECT_EQ(scene.target().seal_count(), 1u);
  EXPECT_EQ(scene.target().PayloadOf(o.older.extent), o.first);
  // Also on another connection.
  const auto other = scene.Connect();
  EXPECT_THAT(scene.Write(*other, o.older, o.first), IsOk());
  EXPECT_EQ(scene.target().seal_count(), 1u);
}

void NewestGenerationOwns(ConformanceScene& scene) {
  Ownership o(scene);
  ASSERT_NE(o.channel, nullptr);
  ASSERT_THAT(scene.Write(*o.channel, o.older, o.first), IsOk());
  ASSERT_THAT(scene.Write(*o.channel, o.newer, o.second), IsOk());
  EXPECT_THAT(scene.Write(*o.channel, o.older, o.first),
              Fails(absl::StatusCode::kFailedPrecondition, ErrorReason::kStaleGeneration));
  EXPECT_EQ(scene.target().PayloadOf(o.newer.extent), o.second);
  EXPECT_THAT(scene.Read(*o.channel, o.older.generation, o.older.extent),
              Fails(absl::StatusCode::kNotFound, ErrorReason::kStaleGeneration));
  EXPECT_THAT(scene.Read(*o.channel, o.newer.generation, o.newer.extent), IsOk());
}

void OlderTermIsRefusedAnywhere(ConformanceScene& scene) {
  Ownership o(scene);
  ASSERT_NE(o.channel, nullptr);
  SealRecord new_term = o.older;
  new_term.generation = Generation::Of(Term{2}, 1);
  ASSERT_THAT(scene.Write(*o.channel, new_term, o.first), IsOk());
  const SealRecord elsewhere = RecordAt(1 << 20, kSize, 100);
  EXPECT_THAT(scene.Write(*o.channel, elsewhere, o.first),
              Fails(absl::StatusCode::kFailedPrecondition, ErrorReason::kStaleTerm));
}

void StaleWritesInABatchLeaveTheOthersAlone(ConformanceScene& scene) {
  Ownership o(scene);
  ASSERT_NE(o.channel, nullptr);
  ASSERT_THAT(scene.Write(*o.channel, o.newer, o.second), IsOk());
  std::vector<WriteOp> ops;
  for (uint32_t i = 0; i < 10; ++i) {
    ops.push_back(WriteOf(RecordAt((i + 1) << 20, kSize, 10 + i), o.first));
    ops.push_back(WriteOf(o.older, o.first));
  }
  for (WriteOp& op : ops) ASSERT_THAT(o.channel->Submit(&op), IsOk());
  ASSERT_THAT(scene.Complete(*o.channel), IsOk());
  for (size_t i = 0; i < ops.size(); ++i) {
    if (i % 2 == 0) {
      EXPECT_THAT(ops[i].status, IsOk());
    } else {
      EXPECT_THAT(ops[i].status,
                  Fails(absl::StatusCode::kFailedPrecondition, ErrorReason::kStaleGeneration));
    }
  }
  EXPECT_EQ(scene.target().PayloadOf(o.newer.extent), o.second);
}

// A writer is in the middle of its payload when a newer generation takes the bytes.
void LateWriterNeverTouchesTheNextOwner(ConformanceScene& scene) {
  const auto late_channel = scene.Connect();
  const auto channel = scene.Connect();
  ASSERT_TRUE(late_channel != nullptr && channel != nullptr);
  constexpr size_t kLarge = 24 << 20;
  const std::vector<std::byte> late_bytes = PatternBytes(kLarge, 1);
  const std::vector<std::byte> new_bytes = PatternBytes(kLarge, 2);
  WriteOp late = WriteOf(RecordAt(0, kLarge, 1), late_bytes);
  ASSERT_THAT(late_channel->Submit(&late), IsOk());
  ASSERT_TRUE(Eventually([&] {
    late_channel->Progress();
    return scene.target().open_claims() > 0 || late.done;
  }));
  ASSERT_FALSE(late.done) << "the payload was to be under way";

  const absl::Status taken = scene.Write(*channel, RecordAt(0, kLarge, 2), new_bytes);
  ASSERT_THAT(scene.Complete(*late_channel), IsOk());
  if (scene.traits().has_mapped_writers) {
    // Nobody can stop it, so nobody takes its bytes.
    EXPECT_THAT(taken, Fails(absl::StatusCode::kUnavailable, ErrorReason::kBytesPinned));
    EXPECT_THAT(late.status, IsOk());
    EXPECT_TRUE(scene.target().PayloadOf(late.record.extent) == late_bytes);
    return;
  }
  EXPECT_THAT(taken, IsOk());
  EXPECT_THAT(late.status,
              Fails(absl::StatusCode::kFailedPrecondition, ErrorReason::kStaleGeneration));
  EXPECT_TRUE(scene.target().PayloadOf(late.record.extent) == new_bytes);
}

// A reader that computes no checksum is in the middle of the payload when a newer generation takes
// the bytes, and `before` more in front of them. Where the old header was it then writes what a
// reader would look for.
void TakeWhileRead(ConformanceScene& scene, uint64_t before) {
  const auto reader = scene.Connect();
  const auto writer = scene.Connect();
  ASSERT_TRUE(reader != nullptr && writer != nullptr);
  // More than the sockets between the two hold.
  constexpr size_t kLarge = 24 << 20;
  const std::vector<std::byte> old_bytes = PatternBytes(kLarge, 1);
  std::vector<std::byte> new_bytes = PatternBytes(kLarge + before, 2);
  std::vector<std::byte> got(kLarge);
  size_t refused = 0;
  for (uint32_t round = 0; round < 8; ++round) {
    const SealRecord record = RecordAt(before, kLarge, 2 * round + 1);
    const SealRecord next = RecordAt(0, new_bytes.size(), 2 * round + 2);
    if (before > 0) {
      std::memcpy(&new_bytes[before + kGenerationAt - kPartHeaderBytes], &record.generation.value,
                  sizeof(record.generation.value));
    }
    ASSERT_THAT(scene.Write(*writer, record, old_bytes), IsOk());
    ReadOp read = ReadOf(record.generation, record.extent, absl::MakeSpan(got));
    read.verify = false;
    std::fill(got.begin(), got.end(), std::byte{0});
    ASSERT_THAT(reader->Submit(&read), IsOk());
    // Where time passes only in here, the network decides how far the two get.
    ASSERT_TRUE(Eventually([&] {
      reader->Progress();
      return got[100] == old_bytes[100] || read.done || !scene.traits().is_threaded;
    }));
    ASSERT_FALSE(read.done) << "the payload was to be under way";

    ASSERT_THAT(scene.Write(*writer, next, new_bytes), IsOk());
    ASSERT_THAT(scene.Complete(*reader), IsOk());
    if (read.status.ok()) {
      EXPECT_TRUE(got == old_bytes);
    } else {
      EXPECT_THAT(read.status, Fails(absl::StatusCode::kNotFound, ErrorReason::kStaleGeneration));
      ++refused;
    }
    // The channel is none the worse for it.
    EXPECT_THAT(scene.Read(*reader, next.generation, next.extent), IsOk());
  }
  EXPECT_TRUE(refused == 8 || !scene.traits().is_threaded) << refused;
}

void UnverifiedReadNeverReturnsBytesOfTheNextOwner(ConformanceScene& scene) {
  TakeWhileRead(scene, 0);
}

void UnverifiedReadIsNotDeceivedByTheNextOwnersPayload(ConformanceScene& scene) {
  TakeWhileRead(scene, 1 << 20);
}

void AbandonedWriteGivesItsBytesUp(ConformanceScene& scene) {
  auto channel = scene.Connect();
  ASSERT_NE(channel, nullptr);
  constexpr size_t kLarge = 24 << 20;
  const std::vector<std::byte> payload = PatternBytes(kLarge, 1);
  WriteOp op = WriteOf(RecordAt(0, kLarge, 1), payload);
  ASSERT_THAT(channel->Submit(&op), IsOk());
  ASSERT_TRUE(Eventually([&] {
    channel->Progress();
    return scene.target().open_claims() > 0 || op.done;
  }));
  channel->Abandon(absl::CancelledError("changed my mind"));
  EXPECT_TRUE(op.done);
  EXPECT_TRUE(Eventually([&] {
    channel->Progress();  // time passes only in here, where it is simulated
    return scene.target().open_claims() == 0;
  }));
}

void UnknownGenerationsAreNotFound(ConformanceScene& scene) {
  Ownership o(scene);
  ASSERT_NE(o.channel, nullptr);
  EXPECT_THAT(scene.Read(*o.channel, o.older.generation, o.older.extent),
              Fails(absl::StatusCode::kNotFound, ErrorReason::kStaleGeneration));
  ASSERT_THAT(scene.Write(*o.channel, o.older, o.first), IsOk());
  Extent shifted = o.older.extent;
  shifted.offset += 64;
  EXPECT_THAT(scene.Read(*o.channel, o.older.generation, shifted).status().ok(), false);
}

void ExtentsOutsideEverySegmentAreRefused(ConformanceScene& scene) {
  Ownership o(scene);
  ASSERT_NE(o.channel, nullptr);
  const auto write_at = [&](SegmentId segment, uint64_t offset) {
    SealRecord record = o.older;
    record.extent.segment = segment;
    record.extent.offset = offset;
    return scene.Write(*o.channel, record, o.first);
  };
  const uint64_t end = scene.target().segment_bytes(0);
  const auto is_refused = Fails(absl::StatusCode::kInvalidArgument, ErrorReason::kBadArgument);
  EXPECT_THAT(write_at(SegmentId{7}, 0), is_refused);
  EXPECT_THAT(write_at(SegmentId{0}, end), is_refused);
  EXPECT_THAT(write_at(SegmentId{0}, end - 64), is_refused);
  EXPECT_THAT(write_at(SegmentId{0}, kMaxExtentOffset / 64 * 64), is_refused);
  EXPECT_THAT(write_at(SegmentId{0}, UINT64_MAX), is_refused);
  EXPECT_THAT(write_at(SegmentId{0}, 1), is_refused);
  Extent beyond = o.older.extent;
  for (const uint64_t offset : {end, end - 64, kMaxExtentOffset / 64 * 64}) {
    beyond.offset = offset;
    EXPECT_THAT(scene.Read(*o.channel, o.older.generation, beyond),
                Fails(absl::StatusCode::kNotFound, ErrorReason::kStaleGeneration));
  }
  // The channel is none the worse for it.
  EXPECT_THAT(scene.Write(*o.channel, o.older, o.first), IsOk());
}

void DamagedBytesAreDataLoss(ConformanceScene& scene) {
  Ownership o(scene);
  ASSERT_NE(o.channel, nullptr);
  ASSERT_THAT(scene.Write(*o.channel, o.older, o.first), IsOk());
  for (const uint64_t at : {uint64_t{0}, uint64_t{kSize / 2}, uint64_t{kSize - 1}}) {
    scene.target().CorruptPayload(o.older.extent, at);
    EXPECT_THAT(scene.Read(*o.channel, o.older.generation, o.older.extent),
                Fails(absl::StatusCode::kDataLoss, ErrorReason::kChecksumMismatch));
    scene.target().CorruptPayload(o.older.extent, at);  // and back
  }
  EXPECT_THAT(scene.Read(*o.channel, o.older.generation, o.older.extent), IsOk());
  // The node was told of each.
  EXPECT_TRUE(Eventually(
      [&] { return scene.target().doubts() == std::vector<Generation>(3, o.older.generation); }));
}

}  // namespace

std::vector<ConformanceCase> OwnershipCases() {
  return {{"WriteAfterSealIsIdempotent", WriteAfterSealIsIdempotent},
          {"NewestGenerationOwns", NewestGenerationOwns},
          {"OlderTermIsRefusedAnywhere", OlderTermIsRefusedAnywhere},
          {"StaleWritesInABatchLeaveTheOthersAlone", StaleWritesInABatchLeaveTheOthersAlone},
          {"LateWriterNeverTouchesTheNextOwner", LateWriterNeverTouchesTheNextOwner},
          {"UnverifiedReadNeverReturnsBytesOfTheNextOwner",
           UnverifiedReadNeverReturnsBytesOfTheNextOwner},
          {"UnverifiedReadIsNotDeceivedByTheNextOwnersPayload",
           UnverifiedReadIsNotDeceivedByTheNextOwnersPayload},
          {"AbandonedWriteGivesItsBytesUp", AbandonedWriteGivesItsBytesUp},
          {"UnknownGenerationsAreNotFound", UnknownGenerationsAreNotFound},
          {"ExtentsOutsideEverySegmentAreRefused", ExtentsOutsideEverySegmentAreRefused},
          {"DamagedBytesAreDataLoss", DamagedBytesAreDataLoss}};
}

}  // namespace moonpool::transport
