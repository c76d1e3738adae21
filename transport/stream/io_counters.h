// Counters of one io thread, read by others while it runs.
#pragma once

#include <atomic>
#include <cstdint>

#include "transport/server.h"

namespace moonpool::transport {

// Written by one thread only, so an addition needs no atomic read-modify-write.
class IoCounter {
 public:
  void Add(uint64_t n) { value_.store(value_.load(kRelaxed) + n, kRelaxed); }
  void Subtract(uint64_t n) { value_.store(value_.load(kRelaxed) - n, kRelaxed); }
  uint64_t value() const { return value_.load(kRelaxed); }

 private:
  static constexpr std::memory_order kRelaxed = std::memory_order_relaxed;
  std::atomic<uint64_t> value_{0};
};

struct IoCounters {
  IoCounter connections_open;
  IoCounter connections;
  IoCounter connections_refused;
  IoCounter handshakes_refused;
  IoCounter timeouts;
  IoCounter bad_frames;
  IoCounter reads;
  IoCounter writes;
  IoCounter claims;
  IoCounter seals;
  IoCounter releases;
  IoCounter stale;
  IoCounter errors;
  IoCounter received_bytes;
  IoCounter sent_bytes;

  void AddTo(ServerCounters* sum) const {
    sum->connections_open += connections_open.value();
    sum->connections_total += connections.value();
    sum->connections_refused_total += connections_refused.value();
    sum->handshakes_refused_total += handshakes_refused.value();
    sum->timeouts_total += timeouts.value();
    sum->bad_frames_total += bad_frames.value();
    sum->reads_total += reads.value();
    sum->writes_total += writes.value();
    sum->claims_total += claims.value();
    sum->seals_total += seals.value();
    sum->releases_total += releases.value();
    sum->stale_total += stale.value();
    sum->errors_total += errors.value();
    sum->received_bytes_total += received_bytes.value();
    sum->sent_bytes_total += sent_bytes.value();
  }
};

}  // namespace moonpool::transport
