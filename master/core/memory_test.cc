// How much memory the core takes per object. Prints the figure and fails on nothing: bounds on it
// are checked where RSS is measured, on a whole master.
#include <gtest/gtest.h>
#include <malloc.h>

#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "common/random.h"
#include "common/testing/status_matchers.h"
#include "master/core/core.h"

namespace moonpool::master {
namespace {

constexpr uint64_t kObjects = 1'000'000;
constexpr uint64_t kBatch = 1000;
constexpr uint64_t kChain = 50;
constexpr uint64_t kPayload = 65536;

double AllocatedBytes() {
  const struct mallinfo2 heap = mallinfo2();
  return static_cast<double>(heap.uordblks + heap.hblkhd);
}

std::string KeyOf(uint64_t i) { return absl::StrFormat("%040x", i * 0x9e3779b97f4a7c15u); }

void PutBatch(Core& core, uint64_t first, absl::Time now) {
  std::vector<std::string> names;
  for (uint64_t i = first; i < first + kBatch; ++i) names.push_back(KeyOf(i));
  std::vector<PutKey> keys;
  for (uint64_t i = 0; i < kBatch; ++i) {
    keys.push_back(PutKey{.key = names[i],
                          .size_bytes = kPayload,
                          .parent = i % kChain == 0 ? "" : absl::string_view(names[i - 1])});
  }
  const auto grants = core.StartPuts({.request_id = first + 1, .puts = keys}, now);
  ASSERT_THAT(grants, IsOk());
  std::vector<CommitPut> commits;
  for (const PutOutcome& outcome : *grants) {
    ASSERT_THAT(outcome.status, IsOk());
    CommitPut& commit = commits.emplace_back();
    commit.generation = outcome.grant->generation;
    commit.handle = outcome.grant->handle;
  }
  ASSERT_THAT(core.CommitPuts({}, commits, now), IsOk());
}

TEST(Memory, PerObject) {
  absl::Time now = absl::UnixEpoch();
  const double before = AllocatedBytes();
  Core core({}, Term{1}, Random(1));
  for (int n = 0; n < 4; ++n) {
    RegisterNodeCommand node{.name = absl::StrCat("n", n), .incarnation = Incarnation{1}};
    node.segments.push_back(SegmentSpec{SegmentId{0}, "dram", kObjects / 4 * kPayload * 103 / 100});
    const auto registration = core.RegisterNode(node, now);
    ASSERT_THAT(registration, IsOk());
    core.InventoryComplete(registration->node, registration->session, now);
  }
  for (uint64_t i = 0; i < kObjects; i += kBatch) {
    PutBatch(core, i, now);
    now += absl::Milliseconds(1);
  }
  ASSERT_EQ(core.GetStatus(now).objects, kObjects);
  const double full = AllocatedBytes();
  std::printf("%.1f bytes per object at %lu objects, 40-byte keys\n",
              (full - before) / static_cast<double>(kObjects), kObjects);
  // Turnover: what is evicted makes room in the tables, too.
  for (uint64_t i = kObjects; i < kObjects * 5 / 4; i += kBatch) PutBatch(core, i, now);
  std::printf("%.1f after a quarter of them was replaced (obituaries included)\n",
              (AllocatedBytes() - before) / static_cast<double>(core.GetStatus(now).objects));
}

}  // namespace
}  // namespace moonpool::master
