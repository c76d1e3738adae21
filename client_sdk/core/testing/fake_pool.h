// A small pool for tests of the client: a fake master, fake nodes, virtual time.
//
//   FakePool pool({"n1", "n2"});
//   auto client = pool.NewClient();
//   EXPECT_THAT(pool.Put(*client, "k", "value"), IsOk());
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "client_sdk/core/core_client.h"
#include "client_sdk/core/testing/fake_master.h"
#include "client_sdk/core/testing/fake_nodes.h"
#include "common/testing/fake_clock.h"
#include "common/testing/test_logger.h"
#include "transport/waiter.h"

namespace moonpool::client {

// Lets virtual time pass. Thread-safe, but `on_wait` is set while no call runs.
class FakeWaiter final : public transport::Waiter {
 public:
  explicit FakeWaiter(FakeClock& clock) : clock_(clock) {}
  void Wait(absl::Span<transport::Channel* const>, const CallContext& context) override {
    if (on_wait) on_wait();
    const absl::Duration step = std::min(absl::Milliseconds(1), context.Remaining(clock_));
    // The clock counts whole nanoseconds; a deadline need not.
    if (step > absl::ZeroDuration()) clock_.Advance(absl::Ceil(step, absl::Nanoseconds(1)));
  }
  const Clock& clock() const override { return clock_; }

  std::function<void()> on_wait;

 private:
  FakeClock& clock_;
};

inline ConstBuffer BytesOf(absl::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}
inline MutableBuffer BufferOf(std::string* text) {
  return {reinterpret_cast<std::byte*>(text->data()), text->size()};
}

inline constexpr char kLocalHost[] = "host-local";

struct FakePool {
  // Nodes are on hosts of their own, but for those whose name starts with "local".
  explicit FakePool(const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      nodes.Add(name, name.rfind("local", 0) == 0 ? kLocalHost : "host-" + name);
    }
  }

  std::unique_ptr<CoreClient> NewClient(SessionOptions options = {}) {
    options.client_id = ++clients;
    options.seed = clients;
    options.peers.host_id = kLocalHost;
    options.peers.paths = {{&shm, /*same_host_only=*/true}, {&tcp, false}};
    return std::make_unique<CoreClient>(master, waiter, log.logger(), options);
  }

  FakeNode& node(const std::string& name) { return *nodes.Find(name); }

  absl::Status Put(CoreClient& client, const std::string& key, absl::string_view value,
                   const PutOptions& options = {}) {
    const PutItem item = {.key = key, .value = {BytesOf(value)}};
    return client.PutMany({&item, 1}, options).front();
  }

  uint64_t clients = 0;
  FakeClock clock;
  FakeWaiter waiter{clock};
  TestLogger log;
  FakeNodes nodes;
  FakeTransport tcp{nodes, "tcp", /*has_views=*/false};
  FakeTransport shm{nodes, "shm", /*has_views=*/true};
  FakeMaster master{nodes, clock};
};

}  // namespace moonpool::client
