// One master's election on a fake etcd, its calls answered by hand.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/testing/status_matchers.h"
#include "common/testing/test_logger.h"
#include "master/election/election.h"
#include "master/etcd/testing/fake_etcd.h"

namespace moonpool::master {

inline constexpr absl::Duration kLease = absl::Seconds(2);

class ElectionTest : public ::testing::Test {
 protected:
  void Take(ElectionOutput out) {
    for (ElectionCall& call : out.calls) calls_.push_back({std::move(call), now_});
    for (ElectionEvent& event : out.events) events_.push_back(std::move(event));
    wake_at_ = out.wake_at;
  }
  void Tick() { Take(election_.Tick(now_)); }
  void Advance(absl::Duration duration) {
    now_ += duration;
    etcd_.ExpireLeases(now_);
  }

  template <typename Request>
  std::optional<ElectionCall> TakeCall() {
    const auto is_one = [](const auto& call) {
      return std::holds_alternative<Request>(call.first.request);
    };
    const auto it = std::find_if(calls_.begin(), calls_.end(), is_one);
    if (it == calls_.end()) return std::nullopt;
    ElectionCall call = std::move(it->first);
    calls_.erase(it);
    return call;
  }
  // Etcd carries out the open call of this sort, and its answer arrives.
  template <typename Request>
  absl::Status Serve() {
    const auto call = TakeCall<Request>();
    if (!call.has_value()) return absl::NotFoundError("no such call is under way");
    auto answer = etcd_.Apply(call->request, now_);
    Take(election_.OnAnswer(call->id, answer, now_));
    return answer.status();
  }
  template <typename Request>
  void Refuse(absl::Status why) {
    const auto call = TakeCall<Request>();
    ASSERT_TRUE(call.has_value());
    Take(election_.OnAnswer(call->id, std::move(why), now_));
  }
  // Nobody else is there: it looks, gets a lease and claims.
  void BecomeLeader() {
    Tick();
    ASSERT_THAT(Serve<EtcdTxn>(), IsOk());
    ASSERT_THAT(Serve<EtcdGrantLease>(), IsOk());
    ASSERT_THAT(Serve<EtcdTxn>(), IsOk());
    ASSERT_EQ(election_.state(), ElectionState::kLeading);
  }
  // Another master does.
  void PutLeader(absl::string_view record, int64_t lease = 0) {
    const auto put = etcd_.Apply(
        EtcdTxn{
            .success = {EtcdPut{.key = "/t/leader", .value = std::string(record), .lease = lease}}},
        now_);
    ASSERT_THAT(put, IsOk());
  }
  bool Leads() const { return election_.leadership().IsLeaderAt(now_); }
  std::vector<ElectionEvent::Kind> Kinds() const {
    std::vector<ElectionEvent::Kind> kinds;
    for (const ElectionEvent& event : events_) kinds.push_back(event.kind);
    return kinds;
  }

  absl::Time now_ = absl::UnixEpoch() + absl::Hours(1);
  TestLogger log_;
  metrics::Registry registry_;
  ElectionMetrics metrics_{registry_};
  FakeEtcd etcd_;
  Leadership leadership_;
  Election election_{{.prefix = "/t", .address = "a:1", .lease = kLease},
                     Random(1),
                     leadership_,
                     metrics_,
                     log_.logger()};
  std::vector<std::pair<ElectionCall, absl::Time>> calls_;
  std::vector<ElectionEvent> events_;
  absl::Time wake_at_;
};

}  // namespace moonpool::master
