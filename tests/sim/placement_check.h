// Whether a leader has its objects where they shall be: as many replicas as were asked for, apart
// from each other, and none on nodes that are to be empty.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "master/core/core.h"

namespace moonpool::sim {

class PlacementCheck {
 public:
  // Now and then while it leads: a drained node is granted nothing. "" or a sentence.
  std::string Watch(const master::Core& leader, uint64_t reign, absl::Time now);

  // What has become of everything when all is healed and every time-out has passed.
  struct Sum {
    uint64_t replicated = 0;    // objects that have the replicas that were asked for, several
    uint64_t spread = 0;        // of them, those on several hosts, and in several racks if named
    uint64_t without_room = 0;  // objects that have fewer, since they fit nowhere else
    uint64_t drained_empty = 0;
    uint64_t drained_stuck = 0;  // nodes that hold what fits nowhere else
  };
  // What must be so, beyond what always must.
  struct Demands {
    bool is_spread = false;     // nothing has ever kept a replica from the best place
    bool knows_wishes = false;  // nor the master from knowing what was asked for
    // The fewest replicas that any put of the key has asked for.
    std::function<uint32_t(const std::string& key)> wished;
  };
  static std::string AtTheEnd(const master::Core& leader, absl::Time now, const Demands& demands,
                              Sum* sum);

 private:
  uint64_t reign_ = 0;
  std::map<std::string, uint64_t> granted_;  // bytes, of nodes that were drained at the last look
};

}  // namespace moonpool::sim
