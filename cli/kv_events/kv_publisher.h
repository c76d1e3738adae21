// Numbered batches for whoever subscribes, and once more for whoever has missed some: the sockets
// of vLLM's ZmqEventPublisher.
//
//   ASSIGN_OR_RETURN(auto publisher, KvPublisher::Start(options));
//   publisher->Publish(payload);                  // as [topic, sequence, payload]
//
// A subscriber that finds a gap in the sequences asks the replay socket for all from one on, and
// gets those that are still kept.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "cli/kv_events/zmq_socket.h"

namespace moonpool::cli {

struct KvPublisherOptions {
  std::string endpoint = "tcp://127.0.0.1:5557";
  std::string replay_endpoint = "tcp://127.0.0.1:5558";
  std::string topic = {};
  int high_water = 10'000;       // batches that wait for one subscriber; more are dropped
  size_t kept_batches = 10'000;  // for replay, and no more than
  size_t kept_bytes = 64 << 20;
  // With an answer's batches the topic comes, as vLLM (0.32) and SGLang (0.5.23) have it; without,
  // as vLLM had it before.
  bool replays_topic = true;
};

// Publish on one thread. Replays are answered on another ("replay").
class KvPublisher {
 public:
  // UNAVAILABLE: an endpoint cannot be bound.
  static absl::StatusOr<std::unique_ptr<KvPublisher>> Start(KvPublisherOptions options);
  ~KvPublisher();

  void Publish(std::string payload);

  const std::string& endpoint() const { return pub_.endpoint(); }
  const std::string& replay_endpoint() const { return replay_.endpoint(); }

  // Somebody has asked for batches that are not kept any more, since the last call: he has to be
  // told everything once more.
  bool TakeGap();

 private:
  struct Batch {
    uint64_t sequence = 0;
    std::string payload;
  };

  KvPublisher(KvPublisherOptions options, ZmqSocket pub, ZmqSocket replay,
              std::unique_ptr<ZmqContext> context);
  void RunReplay();
  void Answer(const std::vector<std::string>& request);
  // The batch of that number, or the oldest one after it that is kept.
  bool Find(uint64_t sequence, Batch* batch);
  bool is_stopping() const;

  const KvPublisherOptions options_;
  const std::unique_ptr<ZmqContext> context_;
  ZmqSocket pub_;
  ZmqSocket replay_;

  mutable absl::Mutex mutex_;
  std::deque<Batch> kept_ ABSL_GUARDED_BY(mutex_);
  size_t kept_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t next_ ABSL_GUARDED_BY(mutex_) = 0;
  bool has_gap_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it starts when all else is there
};

}  // namespace moonpool::cli
