// Views: bytes of the pool itself that stay as they are while somebody looks (rule R8).
#include <deque>
#include <thread>

#include "transport/testing/conformance_scene.h"

namespace moonpool::transport {
namespace {

constexpr size_t kSize = 50'000;

struct Viewing {
  explicit Viewing(ConformanceScene& scene) : channel(scene.Connect()) {
    if (channel == nullptr) return;
    views = channel->views();
    EXPECT_THAT(scene.Write(*channel, older, first), IsOk());
  }
  std::unique_ptr<Channel> channel;
  ViewSource* views = nullptr;
  std::vector<std::byte> first = PatternBytes(kSize, 1);
  std::vector<std::byte> second = PatternBytes(kSize, 2);
  SealRecord older = RecordAt(0, kSize, 1);
  SealRecord newer = RecordAt(0, kSize, 2);
};

auto IsPinned() { return Fails(absl::StatusCode::kUnavailable, ErrorReason::kBytesPinned); }

void BackendsWithoutViewsSaySo(ConformanceScene& scene) {
  const auto channel = scene.Connect();
  ASSERT_NE(channel, nullptr);
  EXPECT_EQ(channel->views() != nullptr, scene.traits().has_views);
}

void ViewShowsThePartInPlace(ConformanceScene& scene) {
  if (!scene.traits().has_views) GTEST_SKIP() << "no views";
  Viewing v(scene);
  ASSERT_OK_AND_ASSIGN(const auto view, v.views->OpenView(v.older.generation, v.older.extent));
  EXPECT_TRUE(
      std::equal(v.first.begin(), v.first.end(), view->payload().begin(), view->payload().end()));
  EXPECT_EQ(view->header().generation, v.older.generation);
  EXPECT_EQ(view->header().payload_bytes, kSize);
  EXPECT_TRUE(view->still_pinned());
}

void PinnedBytesAreRefusedToNewOwnersUntilReleased(ConformanceScene& scene) {
  if (!scene.traits().has_views) GTEST_SKIP() << "no views";
  Viewing v(scene);
  ASSERT_OK_AND_ASSIGN(auto view, v.views->OpenView(v.older.generation, v.older.extent));
  ASSERT_OK_AND_ASSIGN(auto twice, v.views->OpenView(v.older.generation, v.older.extent));
  const auto other = scene.Connect();
  EXPECT_THAT(scene.Write(*other, v.newer, v.second), IsPinned());
  // The refusal left everything as it was.
  EXPECT_THAT(scene.Read(*v.channel, v.older.generation, v.older.extent), IsOk());
  EXPECT_THAT(v.views->OpenView(v.older.generation, v.older.extent), IsOk());
  view.reset();
  EXPECT_THAT(scene.Write(*other, v.newer, v.second), IsPinned());
  twice.reset();
  EXPECT_THAT(scene.Write(*other, v.newer, v.second), IsOk());
}

void SupersededGenerationsHaveNoViews(ConformanceScene& scene) {
  if (!scene.traits().has_views) GTEST_SKIP() << "no views";
  Viewing v(scene);
  ASSERT_THAT(scene.Write(*v.channel, v.newer, v.second), IsOk());
  EXPECT_THAT(v.views->OpenView(v.older.generation, v.older.extent),
              Fails(absl::StatusCode::kNotFound, ErrorReason::kStaleGeneration));
  Extent outside = v.older.extent;
  outside.segment = SegmentId{9};
  EXPECT_THAT(v.views->OpenView(v.older.generation, outside),
              Fails(absl::StatusCode::kNotFound, ErrorReason::kStaleGeneration));
  // A failed view pins nothing.
  EXPECT_THAT(scene.Write(*v.channel, RecordAt(0, kSize, 3), v.first), IsOk());
}

void ViewOutlivesItsChannelAndItsTransport(ConformanceScene& scene) {
  if (!scene.traits().has_views) GTEST_SKIP() << "no views";
  Viewing v(scene);
  std::unique_ptr<PinnedPart> view;
  {
    const auto transport = scene.backend().MakeTransport({});
    ASSERT_OK_AND_ASSIGN(const auto channel,
                         transport->Connect(scene.peer(), scene.Within(scene.kPatience)));
    ASSERT_OK_AND_ASSIGN(view, channel->views()->OpenView(v.older.generation, v.older.extent));
  }
  EXPECT_THAT(scene.Write(*v.channel, v.newer, v.second), IsPinned());
  EXPECT_EQ(view->payload()[kSize - 1], v.first[kSize - 1]);
  EXPECT_TRUE(view->still_pinned());
  view.reset();
  // It was the last that held the connection with the pins.
  EXPECT_TRUE(Eventually([&] { return scene.Write(*v.channel, v.newer, v.second).ok(); }));
}

void ViewKnowsWhenItsNodeIsGone(ConformanceScene& scene) {
  if (!scene.traits().has_views) GTEST_SKIP() << "no views";
  Viewing v(scene);
  ASSERT_OK_AND_ASSIGN(const auto view, v.views->OpenView(v.older.generation, v.older.extent));
  scene.server().Stop();
  EXPECT_FALSE(view->still_pinned());
  EXPECT_EQ(view->payload()[0], v.first[0]);  // mapped all the same
  EXPECT_FALSE(v.channel->healthy());
}

// Views and new owners race for the same bytes: a view that is given never sees them change.
void ViewsAndNewOwnersRace(ConformanceScene& scene) {
  if (!scene.traits().has_views || !scene.traits().is_threaded) GTEST_SKIP() << "no views";
  constexpr uint32_t kRounds = 500;
  const auto channel = scene.Connect();
  ASSERT_NE(channel, nullptr);
  std::atomic<uint32_t> newest{0};
  std::thread writer([&] {
    const auto own = scene.Connect();
    for (uint32_t i = 1; i <= kRounds; ++i) {
      const std::vector<std::byte> payload(4096, std::byte(i));
      absl::Status written;
      do {
        written = scene.Write(*own, RecordAt(0, payload.size(), i), payload);
      } while (ReasonOf(written) == ErrorReason::kBytesPinned);
      EXPECT_THAT(written, IsOk());
      newest.store(i);
    }
  });
  size_t seen = 0;
  while (newest.load() < kRounds) {
    const uint32_t wanted = newest.load();
    if (wanted == 0) continue;
    const SealRecord record = RecordAt(0, 4096, wanted);
    const auto view = channel->views()->OpenView(record.generation, record.extent);
    if (!view.ok()) {
      EXPECT_TRUE(absl::IsNotFound(view.status()) || absl::IsDataLoss(view.status()))
          << view.status();
      continue;
    }
    ++seen;
    for (const std::byte byte : (*view)->payload()) ASSERT_EQ(byte, std::byte(wanted));
  }
  writer.join();
  testing::Test::RecordProperty("views", static_cast<int>(seen));
}

}  // namespace

std::vector<ConformanceCase> ViewCases() {
  return {{"BackendsWithoutViewsSaySo", BackendsWithoutViewsSaySo},
          {"ViewShowsThePartInPlace", ViewShowsThePartInPlace},
          {"PinnedBytesAreRefusedToNewOwnersUntilReleased",
           PinnedBytesAreRefusedToNewOwnersUntilReleased},
          {"SupersededGenerationsHaveNoViews", SupersededGenerationsHaveNoViews},
          {"ViewOutlivesItsChannelAndItsTransport", ViewOutlivesItsChannelAndItsTransport},
          {"ViewKnowsWhenItsNodeIsGone", ViewKnowsWhenItsNodeIsGone},
          {"ViewsAndNewOwnersRace", ViewsAndNewOwnersRace}};
}

}  // namespace moonpool::transport
