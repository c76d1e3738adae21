// What the cases of the conformance suite stand on: a node, a client, and a few verbs.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/call_context.h"
#include "common/random.h"
#include "common/testing/status_matchers.h"
#include "transport/testing/conformance.h"

namespace moonpool::transport {

class ConformanceScene {
 public:
  explicit ConformanceScene(std::unique_ptr<BackendUnderTest> backend,
                            std::vector<uint64_t> segment_bytes = {64u << 20});
  ~ConformanceScene();

  BackendUnderTest& backend() { return *backend_; }
  FakeTarget& target() { return target_; }
  Server& server() { return *server_; }
  Transport& transport() { return *transport_; }
  Waiter& waiter() { return backend_->waiter(); }
  BackendUnderTest::Traits traits() const { return backend_->traits(); }

  PeerAddress peer() { return backend_->PeerAt(server_->address(), target_.incarnation()); }
  CallContext Within(absl::Duration timeout);
  // Fails the test when it cannot.
  std::unique_ptr<Channel> Connect();

  // Submits and waits.
  absl::Status Complete(Channel& channel) { return Complete(channel, Within(kPatience)); }
  absl::Status Complete(Channel& channel, const CallContext& context);
  absl::Status Write(Channel& channel, const SealRecord& record, ConstBytes payload);
  // The payload, or why there is none.
  absl::StatusOr<std::vector<std::byte>> Read(Channel& channel, Generation generation,
                                              const Extent& extent);

  // Generous: a test that takes as long has failed.
  static constexpr absl::Duration kPatience = absl::Seconds(20);

 private:
  const std::unique_ptr<BackendUnderTest> backend_;
  FakeTarget target_;
  const std::unique_ptr<Server> server_;
  const std::unique_ptr<Transport> transport_;
};

// A record of a part at `offset` of segment 0.
SealRecord RecordAt(uint64_t offset, uint64_t payload_bytes, uint32_t counter);
// Different for every seed, and no two stretches alike.
std::vector<std::byte> PatternBytes(size_t size, uint64_t seed);
// Cuts into pieces of uneven sizes, some of them empty.
ConstPieces Scattered(ConstBytes bytes, Random& random);
MutablePieces Scattered(MutableBytes bytes, Random& random);
WriteOp WriteOf(const SealRecord& record, ConstBytes payload);
ReadOp ReadOf(Generation generation, const Extent& extent, MutableBytes into);
// Looks again until it is true; false after the scene's patience.
bool Eventually(const std::function<bool()>& is_true);

struct ConformanceCase {
  const char* name;
  void (*run)(ConformanceScene& scene);
};
std::vector<ConformanceCase> TransferCases();
std::vector<ConformanceCase> OwnershipCases();
std::vector<ConformanceCase> FailureCases();
std::vector<ConformanceCase> ViewCases();
// These fork before a thread is started, and make their scene themselves.
struct ProcessCase {
  const char* name;
  void (*run)(const BackendFactory& factory);
};
std::vector<ProcessCase> ProcessCases();

}  // namespace moonpool::transport
