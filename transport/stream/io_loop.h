// One io thread: an epoll set and the connections it owns.
#pragma once

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "common/clock.h"
#include "transport/stream/io_counters.h"
#include "transport/stream/server_connection.h"

namespace moonpool::transport {

class IoLoop {
 public:
  // Takes a connection that a listener has accepted.
  class Acceptor {
   public:
    virtual ~Acceptor() = default;
    virtual void OnAcceptable() = 0;
  };

  // Borrows everything until Stop. Thread name: io-<index>.
  IoLoop(int index, Target& target, StreamBackend& backend, const StreamServerLimits& limits,
         const Clock& clock);
  ~IoLoop();

  // `acceptor` (may be nullptr) is called on this thread when `listener` has somebody waiting.
  absl::Status Start(int listener, Acceptor* acceptor);
  // Closes the connections and joins the thread. Idempotent.
  void Stop();

  // Thread-safe. The loop serves the connection; with a reason it only tells the peer that.
  void Adopt(UniqueFd fd, absl::Status refusal = absl::OkStatus());

  // Connections that are served or handed over. Thread-safe.
  size_t load() const { return load_.load(std::memory_order_relaxed); }
  const IoCounters& counters() const { return counters_; }

 private:
  struct Slot {
    std::unique_ptr<ServerConnection> connection;
    uint32_t armed_events = 0;
    bool is_ready = false;  // in ready_
  };
  struct Handover {
    UniqueFd fd;
    absl::Status refusal;
  };

  void Run();
  void TakeHandovers();
  void Add(Handover handover);
  void TakeTurn(Slot& slot);
  void MarkReady(Slot& slot);
  void Remove(Slot& slot);
  void CloseOverdue();
  int WaitMillis() const;

  const int index_;
  std::vector<std::byte> scratch_;
  IoCounters counters_;
  const ConnectionScope scope_;
  const absl::Duration sweep_period_;
  UniqueFd epoll_;
  UniqueFd wake_;
  Acceptor* acceptor_ = nullptr;
  std::atomic<bool> stopping_{false};
  std::atomic<size_t> load_{0};
  std::thread thread_;

  // Of the io thread only. Slots stay where they are: epoll has their addresses.
  absl::flat_hash_map<Slot*, std::unique_ptr<Slot>> slots_;
  std::vector<Slot*> ready_;  // have more to do without an event
  std::vector<Slot*> turn_;   // scratch of Run
  absl::Time next_sweep_;

  absl::Mutex mutex_;
  std::vector<Handover> handovers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace moonpool::transport
