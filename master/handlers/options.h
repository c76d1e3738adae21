// Bounds and times of what stands between the wire and the core.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"

namespace moonpool::master {

struct HandlersOptions {
  // Calls that wait.
  absl::Duration max_wait = absl::Seconds(60);  // caps every caller's timeout
  size_t max_waiters = 4096;                    // calls that wait at the same time
  // The oldest call that waits for space keeps younger ones behind it for this long; then they may
  // take what it cannot use.
  absl::Duration space_turn = absl::Seconds(1);
  // Keys of waiting calls that are tried again after another call changed something, so that its
  // answer is not held up; and in one tick.
  size_t retried_keys_per_call = 256;
  size_t retried_keys_per_tick = 4096;

  // Sessions of nodes.
  absl::Duration heartbeat_interval = absl::Seconds(1);
  absl::Duration session_timeout = absl::Seconds(5);   // silence that ends a session
  absl::Duration register_timeout = absl::Seconds(5);  // from the stream's start to Register
  absl::Duration drain_timeout = absl::Seconds(1);     // to send the last messages of a session
  size_t max_sessions = 4200;
  // Generations in commands that wait to be sent to one node; the core repeats what does not fit.
  size_t max_queued_generations = 1 << 17;
  uint64_t max_protocol_errors = 64;    // per session; then it ends
  int max_records_per_message = 16384;  // parts in one Inventory or SealReport

  // Streams of events.
  absl::Duration event_heartbeat = absl::Seconds(1);  // a message at least so often
  absl::Duration event_stall = absl::Minutes(1);      // one that does not go out ends its stream
  // For so long after the last stream has gone, events are kept: it may come back with its token.
  absl::Duration event_memory = absl::Minutes(1);
  size_t events_per_message = 512;
  // To all streams together in one tick_interval, and at most one message more: other calls wait
  // for the lock meanwhile, some 2 ms of 20.
  size_t events_per_tick = 8192;
  size_t max_watchers = 256;

  // Durable state.
  absl::Duration meta_retry = absl::Seconds(1);  // from a failed write to the next try
  // Changes that the meta store has not taken; then calls that would make more are refused.
  size_t max_unsaved_changes = 1 << 16;

  absl::Duration tick_interval = absl::Milliseconds(20);  // longest time between two ticks
};

}  // namespace moonpool::master
