// A network that delays, loses and cuts, from one seed.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "common/random.h"
#include "transport/sim/scheduler.h"

namespace moonpool::sim {

// What may go wrong between hosts. Probabilities are per message.
struct NetworkOptions {
  absl::Duration delay_min = absl::Microseconds(20);
  absl::Duration delay_max = absl::Microseconds(400);
  double straggle = 0.0;  // this one takes up to straggle_max: past deadlines, past grants
  absl::Duration straggle_max = absl::Seconds(20);
  double loss = 0.0;  // of the connection that carries it: everything in flight on it is gone
};

// Hosts are named. Used by whoever holds the scheduler's baton.
class Network {
 public:
  Network(Scheduler& scheduler, Random random, NetworkOptions options)
      : scheduler_(scheduler), random_(random), options_(options) {}

  // Runs `arrive` at the other end after a delay; never while the way is cut at the time of
  // sending or of arrival. Messages of one ordered stream (a nonzero id) arrive in order. Returns
  // false when the message is lost for good, so that the caller can break its connection.
  bool Send(const std::string& from, const std::string& to, uint64_t stream,
            std::function<void()> arrive);

  // One direction; both ends may still hear the other one.
  void Cut(const std::string& from, const std::string& to) { cut_.insert({from, to}); }
  void Heal(const std::string& from, const std::string& to) { cut_.erase({from, to}); }
  // The host is gone: nothing leaves or reaches it until Restore.
  void Isolate(const std::string& host) { isolated_.insert(host); }
  void Restore(const std::string& host) { isolated_.erase(host); }
  bool Reaches(const std::string& from, const std::string& to) const;

  void set_options(const NetworkOptions& options) { options_ = options; }
  uint64_t NewStream() { return ++last_stream_; }
  uint64_t sent() const { return sent_; }
  uint64_t lost() const { return lost_; }

 private:
  absl::Duration Delay();

  Scheduler& scheduler_;
  Random random_;
  NetworkOptions options_;
  std::set<std::pair<std::string, std::string>> cut_;
  std::set<std::string> isolated_;
  std::map<uint64_t, absl::Time> last_arrival_;  // by ordered stream
  uint64_t last_stream_ = 0;
  uint64_t sent_ = 0;
  uint64_t lost_ = 0;
};

}  // namespace moonpool::sim
