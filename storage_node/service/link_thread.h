// The thread `link`: keeps the session with the master going.
//
// It drives a MasterLink (storage_node/link) and owns its streams; data, disk and the pool's
// registration never run on it, so a heartbeat is late only when the machine is.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/log.h"
#include "storage_node/link/master_link.h"
#include "storage_node/service/session_stream.h"
#include "storage_node/service/stream_events.h"

namespace moonpool::storage_node {

class LinkThread {
 public:
  // `link` is not used by anybody else between Start and Stop. `each_round` runs on the thread at
  // least once a second. Borrows clock and logger. A stop waits for streams to end, which they do
  // at once unless gRPC lacks threads or memory: at most `end_max`.
  LinkThread(std::unique_ptr<MasterLink> link, const Clock& clock, const Logger& logger,
             std::function<void()> each_round, absl::Duration end_max = absl::Seconds(5));
  ~LinkThread();
  LinkThread(const LinkThread&) = delete;
  LinkThread& operator=(const LinkThread&) = delete;

  void Start();
  // Ends the session and joins, within seconds whatever gRPC does. Idempotent.
  void Stop();
  // There are seals to report. Any thread; cheap.
  void Wake() { events_->Wake(); }

  // One line for people: "live in term 7", "waiting: no connection within 5s". Any thread.
  std::string Describe() const;
  bool is_live() const;

 private:
  // A stream from its start until it is given up; its last event may come later.
  struct Line {
    uint64_t id = 0;                  // 0: none
    SessionStream* stream = nullptr;  // until it is released
    size_t unwritten = 0;             // messages given to it and not yet written
    bool owes_read = false;           // ReadNext is put off until there is room
  };

  void Run();
  void Handle(StreamEvent& event);
  void CarryOut(LinkOutput out);
  void Open(const std::string& address, Line& line);
  static void Write(v1::NodeMessage message, Line& line);
  static void ReadOn(Line& line);
  // Gives up its stream, if any; what still comes of it is nobody's.
  static void Release(Line& line);
  // Waits for the ends of all streams, not for ever.
  void EndStreams();
  bool HasRoom() const;
  void Publish();

  const std::unique_ptr<MasterLink> link_;
  const Clock& clock_;
  const Logger& logger_;
  const std::function<void()> each_round_;
  const absl::Duration end_max_;
  const std::shared_ptr<StreamEvents> events_;

  // Of the thread alone.
  absl::flat_hash_map<uint64_t, std::unique_ptr<SessionStream>> streams_;  // until their kEnded
  uint64_t last_id_ = 0;
  Line session_;
  Line ask_;  // beside it

  mutable absl::Mutex mutex_;
  bool is_stopping_ ABSL_GUARDED_BY(mutex_) = false;
  LinkState state_ ABSL_GUARDED_BY(mutex_) = LinkState::kWaiting;
  Term term_ ABSL_GUARDED_BY(mutex_);
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);

  std::thread thread_;
};

}  // namespace moonpool::storage_node
