// Two pools and the simulated network between them: node a serves a part that is to be copied to b.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "common/metrics/metrics.h"
#include "common/testing/status_matchers.h"
#include "storage_node/copy/copy_part.h"
#include "storage_node/pool/testing/test_pool.h"
#include "storage_node/serve/node_target.h"
#include "transport/sim/sim_transport.h"

namespace moonpool::storage_node {

inline constexpr char kAddress[] = "a:1";
inline const Generation kPart = Gen(1, 5);
inline const Generation kClaim = Gen(1, 9);
inline const Extent kThere = At(4096, 1064);
inline const Extent kHere = At(0, 1064);

class CopyPartTest : public ::testing::Test {
 protected:
  CopyPartTest() {
    for (TestPool* pool : {&from_, &to_}) pool->index().NoteTerm(Term{1});
    fabric_.Serve(kAddress, "a", &target_);
    EXPECT_THAT(from_.Put(kPart, kThere, "k"), IsOk());
  }

  CopyOrder Order() const {
    return {.record = RecordFor(kPart, kHere, "k"),
            .claim = kClaim,
            .source = {.name = "a",
                       .incarnation = target_.incarnation(),
                       .host_id = {},
                       .tcp_address = kAddress,
                       .shm_path = {}},
            .source_extent = kThere};
  }
  // On an actor: whoever copies lets the world go on only where it waits.
  absl::StatusOr<uint64_t> CopyIn(const CopyOrder& order, const CallContext& context) {
    absl::StatusOr<uint64_t> copied = absl::InternalError("it never ended");
    scheduler_.Spawn("b",
                     [&] { copied = CopyPart(order, to_.index(), sources_, *waiter_, context); });
    scheduler_.Run(absl::InfiniteFuture(), [this] { return scheduler_.live_actors() == 0; });
    return copied;
  }
  absl::Status Copy(const CopyOrder& order) {
    return CopyIn(order, Within(absl::Seconds(10))).status();
  }
  CallContext Within(absl::Duration timeout) const {
    return {.deadline = scheduler_.Now() + timeout, .cancel = {}};
  }
  static uint64_t Free(TestPool& pool, Generation generation) {
    const Generation generations[] = {generation};
    return pool.index().Free(generations, {.oldest_open = Gen(1, 1), .newest = Gen(1, 20)});
  }
  void ExpectNothingHere() {
    EXPECT_THAT(to_.Inventory(), ::testing::IsEmpty());
    EXPECT_EQ(to_.index().stats(0).live_claims, 0u);
  }

  sim::Scheduler scheduler_;
  sim::Network network_{scheduler_, Random(1), {}};
  sim::SimFabric fabric_{scheduler_, network_, Random(2)};
  TestPool from_;
  TestPool to_;
  metrics::Registry registry_;
  ServeMetrics serve_metrics_{registry_};
  NodeTarget target_{Incarnation{7}, from_.index(), serve_metrics_};
  std::unique_ptr<transport::Transport> transport_ = sim::NewSimTransport(fabric_, "b");
  std::unique_ptr<transport::Waiter> waiter_ = sim::NewSimWaiter(fabric_);
  SourceChannels sources_{{transport_.get()}};
};

}  // namespace moonpool::storage_node
