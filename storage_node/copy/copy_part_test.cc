// A part from one pool into another, over the simulated network.
#include "storage_node/copy/copy_part.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "common/error.h"
#include "common/testing/status_matchers.h"
#include "storage_node/copy/copy_worker.h"
#include "storage_node/copy/testing/copy_scene.h"

namespace moonpool::storage_node {
namespace {

using absl::StatusCode;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST_F(CopyPartTest, ThePartIsHereAsItIsThere) {
  const auto copied = CopyIn(Order(), Within(absl::Seconds(1)));
  ASSERT_THAT(copied.status(), IsOk());
  EXPECT_EQ(*copied, kHere.payload_bytes());
  EXPECT_TRUE(to_.IsReadable(kPart, kHere));
  transport::SealRecord expected = from_.Inventory().at(0);
  expected.extent = kHere;
  EXPECT_THAT(to_.Inventory(), ElementsAre(expected));
  EXPECT_EQ(std::memcmp(to_.base() + kHere.offset, from_.base() + kThere.offset, kHere.length), 0);
}

TEST_F(CopyPartTest, AnEmptyPayloadIsCopied) {
  ASSERT_THAT(from_.Put(Gen(1, 6), At(0, kPartHeaderBytes), "empty"), IsOk());
  CopyOrder order = Order();
  order.record = RecordFor(Gen(1, 6), At(0, kPartHeaderBytes), "empty");
  order.source_extent = At(0, kPartHeaderBytes);
  EXPECT_THAT(Copy(order), IsOk());
  EXPECT_TRUE(to_.IsReadable(Gen(1, 6), At(0, kPartHeaderBytes)));
}

TEST_F(CopyPartTest, RepeatedItFindsThePart) {
  ASSERT_THAT(Copy(Order()), IsOk());
  fabric_.Stop(kAddress);
  const auto again = CopyIn(Order(), Within(absl::Seconds(1)));
  ASSERT_THAT(again.status(), IsOk());
  EXPECT_EQ(*again, 0u);
  // Another part under the same claim is none.
  CopyOrder other = Order();
  other.record.key = "other";
  EXPECT_THAT(Copy(other), Fails(StatusCode::kAlreadyExists, ErrorReason::kAlreadyExists));
}

TEST_F(CopyPartTest, ASourceThatHasForgottenThePartIsNamed) {
  Free(from_, kPart);
  const absl::Status status = Copy(Order());
  EXPECT_THAT(status, Fails(StatusCode::kNotFound, ErrorReason::kStaleGeneration));
  EXPECT_EQ(DetailOf(status)->node, "a");
  ExpectNothingHere();
}

TEST_F(CopyPartTest, DamagedBytesAreNotSealed) {
  from_.base()[kThere.offset + 500] ^= std::byte{1};
  const absl::Status status = Copy(Order());
  EXPECT_THAT(status, Fails(StatusCode::kDataLoss, ErrorReason::kChecksumMismatch));
  EXPECT_EQ(DetailOf(status)->node, "a");
  ExpectNothingHere();
}

TEST_F(CopyPartTest, APartOfAnotherObjectOrShapeIsNotSealed) {
  CopyOrder order = Order();
  order.record.key = "other";
  EXPECT_THAT(Copy(order), Fails(StatusCode::kDataLoss, ErrorReason::kChecksumMismatch));
  order = Order();
  order.record.name_space = "other";
  EXPECT_THAT(Copy(order), Fails(StatusCode::kDataLoss, ErrorReason::kChecksumMismatch));
  order = Order();
  order.record.part_count = 2;
  order.record.object_bytes *= 2;
  EXPECT_THAT(Copy(order), Fails(StatusCode::kDataLoss, ErrorReason::kChecksumMismatch));
  order = Order();
  order.source_extent.length -= 1;
  EXPECT_THAT(Copy(order), Fails(StatusCode::kInvalidArgument, ErrorReason::kBadArgument));
  ExpectNothingHere();
}

TEST_F(CopyPartTest, ASourceOutOfReachOrOfAnotherLifeIsNamed) {
  CopyOrder order = Order();
  order.source.tcp_address = "nobody:1";
  absl::Status status = Copy(order);
  EXPECT_THAT(status, Fails(StatusCode::kUnavailable, ErrorReason::kPeerUnreachable));
  EXPECT_EQ(DetailOf(status)->node, "a");
  order.source.tcp_address.clear();
  EXPECT_THAT(Copy(order), Fails(StatusCode::kUnavailable, ErrorReason::kPeerUnreachable));
  order = Order();
  order.source.incarnation = Incarnation{8};
  status = Copy(order);
  EXPECT_THAT(status, Fails(StatusCode::kNotFound, ErrorReason::kStaleGeneration));
  EXPECT_EQ(DetailOf(status)->node, "a");
  ExpectNothingHere();
}

TEST_F(CopyPartTest, AClaimThatIsRefusedCostsNoMessage) {
  ASSERT_THAT(to_.Put(Gen(1, 11), At(512, 64), "newer"), IsOk());
  absl::Status status = Copy(Order());
  EXPECT_THAT(status, Fails(StatusCode::kFailedPrecondition, ErrorReason::kStaleGeneration));
  EXPECT_EQ(DetailOf(status)->node, "");
  CopyOrder order = Order();
  order.record.extent = At(TestPool::kSegmentBytes, kHere.length);
  EXPECT_THAT(Copy(order), StatusIs(StatusCode::kInvalidArgument));
  EXPECT_EQ(network_.sent(), 0u);
  EXPECT_THAT(to_.Inventory(), SizeIs(1));
}

// What follows happens while the source says nothing: the way to it is long.
class CopyFromASilentSourceTest : public CopyPartTest {
 protected:
  CopyFromASilentSourceTest() {
    EXPECT_THAT(sources_.Open(Order().source, Within(absl::Seconds(1))).status(), IsOk());
    SetDelay(absl::Seconds(20));
  }
  void SetDelay(absl::Duration delay) {
    network_.set_options({.delay_min = delay, .delay_max = delay});
  }
};

TEST_F(CopyFromASilentSourceTest, FreeOfTheClaimEndsIt) {
  scheduler_.After(absl::Milliseconds(200), [this] { Free(to_, kClaim); });
  const absl::Time begin = scheduler_.Now();
  EXPECT_THAT(Copy(Order()), Fails(StatusCode::kFailedPrecondition, ErrorReason::kStaleGeneration));
  EXPECT_LT(scheduler_.Now() - begin, absl::Milliseconds(300));
  ExpectNothingHere();
}

TEST_F(CopyFromASilentSourceTest, TheNextOwnersBytesAreNeverWritten) {
  scheduler_.After(absl::Milliseconds(200), [this] {
    EXPECT_THAT(to_.Put(Gen(1, 11), kHere, "newer", std::byte{0x77}), IsOk());
  });
  EXPECT_THAT(Copy(Order()), Fails(StatusCode::kFailedPrecondition, ErrorReason::kStaleGeneration));
  scheduler_.Run(scheduler_.Now() + absl::Minutes(1));
  EXPECT_TRUE(to_.IsReadable(Gen(1, 11), kHere));
}

TEST_F(CopyFromASilentSourceTest, ItEndsByItsDeadline) {
  const absl::Time begin = scheduler_.Now();
  EXPECT_THAT(CopyIn(Order(), Within(absl::Seconds(3))).status(),
              Fails(StatusCode::kDeadlineExceeded, ErrorReason::kDeadline));
  EXPECT_EQ(scheduler_.Now() - begin, absl::Seconds(3));
  ExpectNothingHere();
}

TEST_F(CopyFromASilentSourceTest, ItEndsWhenItIsCancelled) {
  CancelSource cancel;
  scheduler_.After(absl::Milliseconds(200), [&] { cancel.Cancel(); });
  EXPECT_THAT(CopyIn(Order(), {.cancel = cancel.token()}).status(),
              Fails(StatusCode::kCancelled, ErrorReason::kCancelledByCaller));
  ExpectNothingHere();
}

TEST_F(CopyFromASilentSourceTest, AConnectionThatDiedIsMadeAnew) {
  // The process has gone and come back; that the old connection is dead is not seen yet.
  fabric_.Stop(kAddress);
  fabric_.Serve(kAddress, "a", &target_);
  SetDelay(absl::Milliseconds(1));
  EXPECT_THAT(Copy(Order()), IsOk());
  EXPECT_TRUE(to_.IsReadable(kPart, kHere));
}

TEST_F(CopyFromASilentSourceTest, ASourceThatHasDiedIsUnreachable) {
  scheduler_.After(absl::Milliseconds(200), [this] { fabric_.Stop(kAddress); });
  const absl::Status status = Copy(Order());
  EXPECT_THAT(status, Fails(StatusCode::kUnavailable, ErrorReason::kPeerUnreachable));
  EXPECT_EQ(DetailOf(status)->node, "a");
  ExpectNothingHere();
}

TEST_F(CopyPartTest, ChannelsAreKeptForThePartsToComeUpToABound) {
  SourceChannels few({transport_.get()}, /*kept_max=*/2);
  const auto open = [&](const std::string& address) {
    CopyOrder order = Order();
    order.source.tcp_address = address;
    const auto opened = few.Open(order.source, Within(absl::Seconds(1)));
    EXPECT_THAT(opened.status(), IsOk());
    return opened->is_new;
  };
  for (const char* address : {"a:2", "a:3"}) fabric_.Serve(address, "a", &target_);
  EXPECT_TRUE(open("a:1"));
  EXPECT_TRUE(open("a:2"));
  EXPECT_FALSE(open("a:1"));
  EXPECT_TRUE(open("a:3"));  // in place of the one not used for longest
  EXPECT_FALSE(open("a:1"));
  EXPECT_TRUE(open("a:2"));
}

TEST_F(CopyPartTest, AWorkerDoesWhatIsQueuedAndCountsIt) {
  CopyQueue queue;
  CopyMetrics metrics(registry_);
  CopyWorker worker({.queue = queue,
                     .index = to_.index(),
                     .transports = {transport_.get()},
                     .waiter = *waiter_,
                     .metrics = metrics});
  EXPECT_FALSE(worker.RunNext());
  ASSERT_THAT(queue.Add(1, Order(), scheduler_.Now() + absl::Seconds(1)), IsOk());
  CopyOrder missing = Order();
  missing.record = RecordFor(Gen(1, 6), At(2048, 1064), "k");
  ASSERT_THAT(queue.Add(2, missing, scheduler_.Now() + absl::Seconds(1)), IsOk());
  EXPECT_TRUE(worker.RunNext());
  EXPECT_TRUE(worker.RunNext());
  EXPECT_FALSE(worker.RunNext());
  const std::vector<CopyResult> results = queue.TakeResults();
  ASSERT_THAT(results, SizeIs(2));
  EXPECT_THAT(results[0].status, IsOk());
  EXPECT_THAT(results[1].status, StatusIs(StatusCode::kNotFound));
  EXPECT_EQ(metrics.bytes.value(), kHere.payload_bytes());
  EXPECT_THAT(registry_.Text(), HasSubstr("moonpool_node_copies_total{result=\"ok\"} 1"));
  EXPECT_THAT(registry_.Text(), HasSubstr("moonpool_node_copies_total{result=\"no_such_part\"} 1"));
}

}  // namespace
}  // namespace moonpool::storage_node
