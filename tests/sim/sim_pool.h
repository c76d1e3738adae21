// What of a simulated node outlives its process: the pool's bytes, and those of its journal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/random.h"

namespace moonpool::sim {

struct SimPool {
  struct alignas(64) Granule {  // as the pages of a real segment are
    std::byte bytes[64] = {};
  };
  std::vector<Granule> memory;
  std::vector<Granule> table;  // each is a cell
  bool has_content = false;

  static SimPool New(uint64_t bytes);

  // What was being written is cut off in the middle, in the journal or in the pool, and bits of the
  // journal's pages have turned. More than a kill does, and all that it may do: a node must not
  // take what is left for what was there.
  void Tear(Random& random);
};

}  // namespace moonpool::sim
