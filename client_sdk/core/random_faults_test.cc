// Random calls under random faults, from a seed. One key has one value for ever, so that every get
// can be judged: that value, or a miss.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "client_sdk/core/testing/fake_pool.h"
#include "common/random.h"
#include "common/testing/status_matchers.h"

namespace moonpool::client {
namespace {

constexpr absl::Duration kTimeout = absl::Seconds(5);

std::string ValueOf(uint64_t id) {
  Random random(id);
  std::string value = absl::StrCat("value of ", id, ":");
  const uint64_t bytes = random.Below(200);
  while (value.size() < bytes) value.push_back(static_cast<char>('a' + random.Below(26)));
  return random.OneIn(10) ? "" : value;
}

class RandomFaults : public ::testing::TestWithParam<uint64_t> {
 protected:
  RandomFaults() : random_(GetParam()), pool_({"local1", "local2", "n1", "n2"}) {
    pool_.master.stripe_bytes = GetParam() % 2 == 0 ? 0 : 32;
    pool_.master.spares_max = static_cast<uint32_t>(GetParam() % 4);
    for (const size_t entries : {0, 32, 1000}) {
      clients_.push_back(pool_.NewClient({.location_cache_entries = entries}));
    }
  }

  void Step() {
    const uint64_t id = random_.Below(40);
    const std::string key = absl::StrCat("k", id);
    CoreClient& client = *clients_[random_.Below(clients_.size())];
    switch (random_.Below(10)) {
      case 0: return NodeFault(*pool_.nodes.all()[random_.Below(4)]);
      case 1: return OtherFault();
      case 2: return Remove(client, key);
      case 3:
        pool_.master.Evict(key);
        acknowledged_.erase(key);
        return;
      case 4:
      case 5:
      case 6: return Put(client, key, ValueOf(id));
      case 7: return View(client, key, ValueOf(id));
      default: return Get(client, key, ValueOf(id));
    }
  }

  void NodeFault(FakeNode& node) {
    switch (random_.Below(8)) {
      case 0: node.faults.is_dead = true; break;
      case 1: node.faults.is_frozen = true; break;
      case 2: node.faults.is_dead = node.faults.is_frozen = false; break;
      case 3: node.Restart(); break;
      case 4: node.faults.broken_ops = static_cast<int>(random_.Below(4)); break;
      case 5: node.faults.lost_answers = static_cast<int>(random_.Below(4)); break;
      case 6: node.faults.pinned_writes = static_cast<int>(random_.Below(3)); break;
      default: node.faults.outstanding_max = 1 + random_.Below(8);
    }
  }

  void OtherFault() {
    const absl::Status lost = absl::UnavailableError("reset");
    switch (random_.Below(5)) {
      case 0: pool_.master.Fail("CommitPuts", lost, {1, random_.OneIn(2)}); break;
      case 1: pool_.master.Fail("StartPuts", lost, {1, random_.OneIn(2)}); break;
      case 2: pool_.master.Fail("AbortPuts", lost, {1, random_.OneIn(2)}); break;
      case 3: pool_.shm.is_broken = random_.OneIn(2); break;
      default: pool_.clock.Advance(absl::Milliseconds(random_.Below(3000)));
    }
  }

  void EndFaults() {
    for (const auto& node : pool_.nodes.all()) {
      node->faults.is_dead = node->faults.is_frozen = false;
      node->faults.broken_ops = node->faults.lost_answers = node->faults.pinned_writes = 0;
    }
    pool_.shm.is_broken = false;
    pool_.clock.Advance(absl::Seconds(30));
  }

  void Put(CoreClient& client, const std::string& key, const std::string& value) {
    const uint32_t replicas = 1 + static_cast<uint32_t>(random_.Below(2));
    const absl::Status put =
        pool_.Put(client, key, value, {.call = {.timeout = kTimeout}, .replicas = replicas});
    if (put.ok()) acknowledged_.insert(key);
  }

  void Remove(CoreClient& client, const std::string& key) {
    client.Remove({key}, {.timeout = kTimeout});
    acknowledged_.erase(key);
  }

  void Get(CoreClient& client, const std::string& key, const std::string& value) {
    const absl::StatusOr<std::string> got = client.Get(key, {.call = {.timeout = kTimeout}});
    if (got.ok()) {
      ASSERT_EQ(*got, value);
    }
  }

  void View(CoreClient& client, const std::string& key, const std::string& value) {
    const absl::StatusOr<moonpool::View> view =
        client.GetView(key, {.call = {.timeout = kTimeout}});
    if (!view.ok()) return;
    std::string seen;
    for (const ConstBuffer piece : view->pieces()) {
      seen.append(reinterpret_cast<const char*>(piece.data()), piece.size());
    }
    ASSERT_EQ(seen, value);
  }

  Random random_;
  FakePool pool_;
  std::vector<std::unique_ptr<CoreClient>> clients_;
  std::set<std::string> acknowledged_;  // and neither removed nor evicted since
};

TEST_P(RandomFaults, GetsAreWhatWasPutOrAMissAndEndInTime) {
  for (int step = 0; step < 500; ++step) {
    const absl::Time begun = pool_.clock.Now();
    ASSERT_NO_FATAL_FAILURE(Step()) << step;
    ASSERT_LE(pool_.clock.Now() - begun, kTimeout) << step;
  }
  EndFaults();
  for (const std::string& key : acknowledged_) {
    const absl::StatusOr<std::string> got = clients_[1]->Get(key, {});
    ASSERT_THAT(got, IsOk()) << key;
    EXPECT_EQ(*got, ValueOf(std::stoul(key.substr(1))));
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomFaults, ::testing::Range<uint64_t>(0, 50));

}  // namespace
}  // namespace moonpool::client
