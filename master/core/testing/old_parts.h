// What nodes bring from the time of an older master (term 5; a CoreFixture begins with 7).
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "master/core/testing/core_fixture.h"

namespace moonpool::master {

inline bool Names(const std::vector<FreeCommand>& frees, NodeId node, Generation generation) {
  return std::any_of(frees.begin(), frees.end(), [&](const FreeCommand& free) {
    const auto& all = free.generations;
    return free.node == node && std::find(all.begin(), all.end(), generation) != all.end();
  });
}

// Deaths that push all others out of a small memory.
inline void ForgetDeaths(CoreFixture& pool) {
  for (const char* key : {"x", "y"}) {
    const Grant grant = pool.Grab(key, 10);
    ASSERT_THAT(pool.Abort(grant), IsOk());
  }
}

inline SealedPart OldPart(absl::string_view key, uint64_t block = 0, uint32_t counter = 1) {
  return SealedPart{.generation = Generation::Of(Term{5}, counter),
                    .name_space = "default",
                    .key = key,
                    .extent = {SegmentId{0}, block * kBlock, 10 + kPartHeaderBytes},
                    .object_bytes = 10};
}

// The two parts of one object.
inline std::vector<SealedPart> OldHalves(absl::string_view key) {
  std::vector<SealedPart> halves(2, OldPart(key, 0));
  for (uint32_t i = 0; i < halves.size(); ++i) {
    halves[i].extent.length = 5 + kPartHeaderBytes;
    halves[i].part_index = i;
    halves[i].part_count = 2;
  }
  return halves;
}

inline RegisterNodeCommand OldNode(const std::string& name) {
  RegisterNodeCommand description = CoreFixture::Description(name, {10 * kBlock});
  description.highest_term_seen = Term{5};
  return description;
}

}  // namespace moonpool::master
