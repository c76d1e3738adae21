#include "master/core/stand_ins.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"

namespace moonpool::master {
namespace {

using Badness = absl::FunctionRef<int(const StoredPart&)>;
using ReplicaParts = absl::Span<StoredPart>;

bool AreOfOneCut(ReplicaParts a, ReplicaParts b) {
  return a[0].cut == b[0].cut && std::equal(a.begin(), a.end(), b.begin(), b.end(),
                                            [](const StoredPart& one, const StoredPart& other) {
                                              return one.length == other.length;
                                            });
}

// True when `change` has changed any of them.
bool ForEachCut(StoredParts& parts, absl::FunctionRef<bool(absl::Span<ReplicaParts>)> change) {
  absl::InlinedVector<ReplicaParts, kMaxReplicas> replicas;
  for (size_t i = 0, first = 0; i < parts.size(); ++i) {
    if (i + 1 < parts.size() && parts[i + 1].replica == parts[first].replica) continue;
    replicas.push_back(absl::MakeSpan(parts).subspan(first, i + 1 - first));
    first = i + 1;
  }
  bool has_changed = false;
  while (!replicas.empty()) {
    const ReplicaParts one = replicas.front();
    const auto others =
        std::stable_partition(replicas.begin(), replicas.end(),
                              [&](ReplicaParts other) { return AreOfOneCut(one, other); });
    const auto count = static_cast<size_t>(others - replicas.begin());
    has_changed |= change(absl::MakeSpan(replicas).first(count));
    replicas.erase(replicas.begin(), others);
  }
  return has_changed;
}

int WorstOf(ReplicaParts replica, Badness badness) {
  int worst = 0;
  for (const StoredPart& part : replica) worst = std::max(worst, badness(part));
  return worst;
}

// Whether fewer replicas need to have parts that are as bad.
bool CanSaveAny(absl::Span<const ReplicaParts> replicas, Badness badness) {
  for (int bad = 1; bad <= WorstOf(replicas[0], badness); ++bad) {
    const auto count = [&](auto is_it) {
      return std::count_if(replicas.begin(), replicas.end(), is_it);
    };
    const auto have = count([&](ReplicaParts r) { return WorstOf(r, badness) >= bad; });
    ptrdiff_t need = 0;
    for (size_t i = 0; i < replicas[0].size(); ++i) {
      need = std::max(need, count([&](ReplicaParts r) { return badness(r[i]) >= bad; }));
    }
    if (have > need) return true;
  }
  return false;
}

// The worst of each part go to the first replica, and so on. Those that are all good stay as they
// are.
bool GatherInCut(absl::Span<ReplicaParts> replicas, Badness badness) {
  std::stable_sort(replicas.begin(), replicas.end(), [&](ReplicaParts a, ReplicaParts b) {
    return WorstOf(a, badness) > WorstOf(b, badness);
  });
  if (!CanSaveAny(replicas, badness)) return false;
  for (size_t i = 0; i < replicas[0].size(); ++i) {
    StoredParts same;
    for (const ReplicaParts replica : replicas) same.push_back(replica[i]);
    std::stable_sort(same.begin(), same.end(), [&](const StoredPart& a, const StoredPart& b) {
      return badness(a) > badness(b);
    });
    for (size_t r = 0; r < replicas.size(); ++r) {
      same[r].replica = replicas[r][i].replica;
      replicas[r][i] = same[r];
    }
  }
  return true;
}

size_t NodesInBoth(ReplicaParts a, ReplicaParts b) {
  absl::flat_hash_set<NodeIndex> nodes;
  for (const StoredPart& part : a) nodes.insert(part.node);
  size_t shared = 0;
  for (const StoredPart& part : b) shared += nodes.erase(part.node);
  return shared;
}

// Positions of two replicas, tied where a node has to do with both: their parts are exchanged
// together, or one of them is when the other is not. Union-find; each knows how it stands to the
// one above it.
class Ties {
 public:
  explicit Ties(size_t positions) : above_(positions), differs_(positions, false) {
    std::iota(above_.begin(), above_.end(), size_t{0});
  }
  // A tie that contradicts others is none.
  void Tie(size_t a, size_t b, bool differ) {
    const bool of_tops = differ != (DiffersFromTop(a) != DiffersFromTop(b));
    const size_t below = Top(a);
    if (below == Top(b)) return;
    above_[below] = Top(b);
    differs_[below] = of_tops;
  }
  bool DiffersFromTop(size_t position) {
    Flatten(position);
    return differs_[position];
  }

 private:
  size_t Top(size_t position) {
    Flatten(position);
    return above_[position];
  }
  void Flatten(size_t position) {
    bool differs = false;
    size_t top = position;
    for (; above_[top] != top; top = above_[top]) differs ^= differs_[top];
    while (above_[position] != position) {
      const size_t next = std::exchange(above_[position], top);
      differs ^= std::exchange(differs_[position], differs);
      position = next;
    }
  }

  std::vector<size_t> above_;
  std::vector<uint8_t> differs_;
};

// Parts of one node have to be of one replica: a graph of two colours.
bool Disentangle(ReplicaParts a, ReplicaParts b) {
  const size_t shared = NodesInBoth(a, b);
  if (shared == 0) return false;
  struct Place {
    size_t position;
    bool is_of_b;
  };
  absl::flat_hash_map<NodeIndex, Place> first;
  Ties ties(a.size());
  for (size_t i = 0; i < a.size(); ++i) {
    for (const bool is_of_b : {false, true}) {
      const Place here{i, is_of_b};
      const Place& there = first.try_emplace((is_of_b ? b : a)[i].node, here).first->second;
      ties.Tie(i, there.position, is_of_b != there.is_of_b);
    }
  }
  const auto exchange = [&] {
    for (size_t i = 0; i < a.size(); ++i) {
      if (!ties.DiffersFromTop(i)) continue;
      std::swap(a[i], b[i]);
      std::swap(a[i].replica, b[i].replica);
    }
  };
  exchange();
  if (NodesInBoth(a, b) < shared) return true;
  exchange();
  return false;
}

}  // namespace

bool GatherBad(StoredParts& parts, Badness badness) {
  return ForEachCut(
      parts, [&](absl::Span<ReplicaParts> replicas) { return GatherInCut(replicas, badness); });
}

bool KeepApart(StoredParts& parts) {
  return ForEachCut(parts, [](absl::Span<ReplicaParts> replicas) {
    bool has_changed = false;
    for (size_t i = 0; i < replicas.size(); ++i) {
      for (size_t j = i + 1; j < replicas.size(); ++j) {
        has_changed |= Disentangle(replicas[i], replicas[j]);
      }
    }
    return has_changed;
  });
}

}  // namespace moonpool::master
