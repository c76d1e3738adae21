// Numbered batches for whoever subscribes, and once more for whoever has missed some: the sockets
// of vLLM's ZmqEventPublisher.
//
//   ASSIGN_OR_RETURN(auto publisher, KvPublisher::Start(options));
//   publisher->Publish(payload);                  // as [topic, sequence, payload]
//
// A subscriber that finds a gap in the sequences asks the replay socket for all from one on, and
// gets those that are still kept; kv_replay.h says what else.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "cli/kv_events/kept_batches.h"
#include "cli/kv_events/kv_replay.h"
#include "cli/kv_events/zmq_socket.h"

namespace moonpool::cli {

// Batches should not be larger. With it the high waters below come to 64 MiB for a subscriber that
// does not read, and to 1 MiB for who asks for a replay and does not read it.
inline constexpr size_t kKvBatchBytes = 32 << 10;

struct KvPublisherOptions {
  std::string endpoint = "tcp://127.0.0.1:5557";
  std::string replay_endpoint = "tcp://127.0.0.1:5558";
  int high_water = 2'048;      // batches that wait for one subscriber; what is more is dropped
  int replay_high_water = 32;  // for who asks for a replay; the rest comes when he has room
  KeptBatchesOptions kept = {};
  KvReplayOptions replay = {};  // its topic is that of what is published
};

// Used by one thread. Replays are answered on another.
class KvPublisher {
 public:
  // UNAVAILABLE: an endpoint cannot be bound.
  static absl::StatusOr<std::unique_ptr<KvPublisher>> Start(KvPublisherOptions options);

  void Publish(const std::string& payload);

  const std::string& endpoint() const { return pub_.endpoint(); }
  const std::string& replay_endpoint() const { return replay_.endpoint(); }

  // See KvReplay.
  bool TakeGap() { return replay_.TakeGap(); }

 private:
  KvPublisher(KvPublisherOptions options, ZmqSocket pub, ZmqSocket replay,
              std::unique_ptr<ZmqContext> context);

  const std::string topic_;
  const std::unique_ptr<ZmqContext> context_;
  ZmqSocket pub_;
  KeptBatches kept_;
  KvReplay replay_;
};

}  // namespace moonpool::cli
