// Somebody who follows the events of whoever leads, and knows from them alone what is stored.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "master/handlers/watcher.h"
#include "moonpool/v1/events.pb.h"
#include "tests/sim/sim_master.h"

namespace moonpool::sim {

// Takes what there is when it is asked to: its connection has no delays of its own. What a stream
// tells is looked at here, and not how it travels.
class SimWatcher {
 public:
  // The next batch of the leader's. Now and then it loses its stream, and goes on from its token.
  void Read(SimMaster& leader);
  // With nothing more to come: "" when what it knows is what the leader names, else what differs.
  std::string Compare(SimMaster& leader);

  uint64_t events() const { return events_; }
  uint64_t resumed() const { return resumed_; }  // streams that went on from a token
  uint64_t resets() const { return resets_; }    // and that did not, though there was one

 private:
  // False: there is none.
  bool Take(SimMaster& leader);
  void Open(SimMaster& leader);
  void Apply(const v1::EventBatch& batch);

  SimMaster* master_ = nullptr;  // whose stream it is
  std::unique_ptr<master::Watcher> watcher_;
  std::optional<v1::EventToken> token_;
  std::map<std::pair<std::string, std::string>, uint64_t> stored_;  // namespace, key: generation
  bool is_whole_ = false;
  uint64_t reads_ = 0;
  uint64_t events_ = 0;
  uint64_t resumed_ = 0;
  uint64_t resets_ = 0;
};

}  // namespace moonpool::sim
