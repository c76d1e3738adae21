// One inference engine as the pool sees it: look how much of a prompt is there, fetch it, compute
// the rest (a modelled time, or none) and store that.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "bench/measure/latency.h"
#include "bench/trace/request.h"
#include "moonpool/client.h"

namespace moonpool::replay {

struct EngineOptions {
  ClientOptions client;
  uint64_t block_bytes = 0;
  std::string key_prefix;  // key of a block: prefix, then its id in decimal
  absl::Duration prefill_per_block = absl::ZeroDuration();
  uint64_t buffer_bytes = uint64_t{64} << 20;  // one buffer set, reused by every call
};

// What happened. Latencies are those of one call, which moves up to batch_blocks() blocks.
struct Tally {
  uint64_t requests = 0;
  uint64_t blocks = 0;            // referenced by the requests
  uint64_t hit_blocks = 0;        // of the leading blocks of each request, read and right
  uint64_t lost_after_match = 0;  // matched, and evicted before they were read: misses
  uint64_t stored_blocks = 0;
  uint64_t stored_by_others = 0;  // somebody else stored it, or is writing it
  uint64_t refused = 0;           // the pool had no space for a block
  uint64_t errors = 0;            // of calls and blocks, other than misses and refusals
  uint64_t wrong_bytes = 0;
  uint64_t get_bytes = 0;
  uint64_t put_bytes = 0;
  bench::LatencyHistogram match;
  bench::LatencyHistogram get;
  bench::LatencyHistogram put;
  absl::Status first_error;

  void Merge(const Tally& other);
  void CountError(const absl::Status& status);
};

// Used by one thread.
class Engine {
 public:
  static absl::StatusOr<std::unique_ptr<Engine>> Connect(EngineOptions options);
  size_t batch_blocks() const { return batch_blocks_; }

  void Play(const trace::Request& request, Tally& tally);

 private:
  Engine(EngineOptions options, std::unique_ptr<Client> client);
  std::string KeyOf(uint64_t block) const;
  // Leading keys of the chain that are readable now.
  size_t Match(Tally& tally);
  // Reads the leading `matched` blocks; returns how many of them came, without a gap.
  size_t Fetch(size_t matched, Tally& tally);
  // Stores the chain from block `first` on.
  void Store(const trace::Request& request, size_t first, Tally& tally);
  // Stores `puts_`; false when the rest of the chain is not worth storing.
  bool StoreBatch(Tally& tally);
  absl::Span<std::byte> Buffer(size_t index);

  const EngineOptions options_;
  const std::unique_ptr<Client> client_;
  const size_t batch_blocks_;
  const std::unique_ptr<std::byte[]> buffers_;
  std::vector<std::string> keys_;  // of the request that is being played
  std::vector<PutItem> puts_;
};

}  // namespace moonpool::replay
