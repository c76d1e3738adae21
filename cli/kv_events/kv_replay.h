// Answers those who have missed batches: the ROUTER socket of vLLM's ZmqEventPublisher.
//
// Asked for batches from a number on, it sends those that are kept, and an end. Who asks for some
// that are not kept any more is first told all that is stored, he alone: a snapshot, in batches
// with the numbers from the one he asked for on. They are below the first one that was published
// after the snapshot was begun, so he goes on with what was published since. What the snapshot has
// of that already does no harm: of each block the last event decides.
//
// All who ask are answered in turns, and nobody is waited for. Who reads slowly gets the rest of
// his answer when he has room for it, and snapshots are taken on a thread of their own, one for all
// who wait for one. Of one peer one request is under way, the newest: his other answers break off.
//
// Nobody is known here but by what he sends: a snapshot is begun only for who could be sent its
// first batch, AllBlocksCleared alone, since he is there.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "cli/kv_events/kept_batches.h"
#include "cli/kv_events/snapshot_taker.h"
#include "cli/kv_events/zmq_socket.h"
#include "common/clock.h"

namespace moonpool::cli {

struct KvReplayOptions {
  std::string topic = {};
  // With an answer's batches the topic comes, as vLLM (0.32) and SGLang (0.5.23) have it; without,
  // as vLLM had it before.
  bool sends_topic = true;
  TakeSnapshot snapshot = {};  // on the thread "snapshot"; none: there is only what is kept
  // A batch of AllBlocksCleared and nothing else; none: snapshots are begun for who may have gone.
  std::function<std::string()> cleared = {};
  size_t askers_max = 1024;  // at once; who has read nothing for a second makes room for the next
  const Clock* clock = nullptr;  // the machine's; it outlives this
};

// It works on its own thread, "replay".
class KvReplay {
 public:
  KvReplay(KvReplayOptions options, const KeptBatches& kept, ZmqSocket socket);
  ~KvReplay();

  const std::string& endpoint() const { return endpoint_; }

  // Since the last call somebody needed a snapshot and could not have one: all has to be published
  // once more.
  bool TakeGap();

 private:
  using Snapshot = std::vector<std::string>;
  // Somebody who has asked, and has not been told the end.
  struct Asker {
    std::string who;
    uint64_t next = 0;   // what he is sent next has at least this number
    uint64_t needs = 0;  // he knows all that was published before this one
    std::shared_ptr<const Snapshot> snapshot = {};
    size_t told = 0;  // batches of it
    int snapshots = 0;
    bool is_probed = false;  // he could be sent something
    bool awaits = false;     // the next snapshot
    // Of the peer, whatever he asks for: he has had no room since, and is not tried before.
    absl::Time stalled_since = absl::InfiniteFuture();
    absl::Time try_at = absl::InfinitePast();
  };
  enum class Turn { kMore, kFull, kAwaits, kOver };
  // Neither: it is the end.
  struct Next {
    std::optional<KeptBatches::Batch> batch = {};
    bool is_awaited = false;  // a snapshot has to be taken first
  };

  void Run();
  void TakeRequests(absl::Duration patience);
  void Take(const std::vector<std::string>& request);
  bool HasRoomForAsker();
  // How long there is nothing to do.
  absl::Duration ServeAll();
  Turn Serve(Asker& asker);
  Turn Await(Asker& asker);
  // Whether he is to be forgotten.
  bool Settle(Asker& asker, Turn turn);
  Next NextFor(Asker& asker);
  void BeginSnapshot();
  void FetchSnapshot();
  bool GiveSnapshot(Asker& asker, std::shared_ptr<const Snapshot> snapshot);
  ZmqSocket::Sent Send(const Asker& asker, absl::string_view topic, uint64_t number,
                       absl::string_view payload);
  bool is_stopping() const;

  const KvReplayOptions options_;
  const KeptBatches& kept_;
  const SteadyClock steady_clock_;
  const Clock& clock_;
  const std::string endpoint_;
  ZmqSocket socket_;
  std::unique_ptr<SnapshotTaker> taker_;
  std::vector<Asker> askers_;               // in order of their requests
  std::weak_ptr<const Snapshot> snapshot_;  // the last one, as long as somebody is told it
  uint64_t snapshot_next_ = 0;              // it has all that was published before this number
  uint64_t taking_next_ = 0;                // so will the one that is being taken

  mutable absl::Mutex mutex_;
  bool has_gap_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it starts when all else is there
};

}  // namespace moonpool::cli
