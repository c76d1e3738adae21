// Where replicas go. Takes space from the nodes' allocators; evicts nothing.
//
// The writer's own host first, then two random choices by free bytes, then whoever has room.
// A node that came empty a moment ago is chosen less often, and its free bytes count less, as long
// as others have room: else all that is written, and so all that is read first, would be on it.
//
// Replicas of one object stand on different nodes, on different hosts and in different racks as far
// as the nodes that there are allow. One extent is preferred; objects larger than stripe_bytes are
// spread over nodes, and holes are joined when nothing else fits.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/random.h"
#include "master/core/node_table.h"
#include "master/core/options.h"

namespace moonpool::master {

// One replica; `replica` numbers and positions are not set here.
using PlacedReplica = absl::InlinedVector<StoredPart, 1>;
using PlacedReplicas = absl::InlinedVector<PlacedReplica, 1>;

struct PlacementRequest {
  uint64_t size_bytes = 0;
  LabelId writer_host = 0;
  uint32_t replicas = 1;                        // that the object shall have in all
  absl::Span<const PlacedReplica> others = {};  // those that are placed already
  absl::Time now = absl::InfiniteFuture();
};

// Whether a node may take a part of a copy: never, not now, or now.
enum class Fit : uint8_t { kNo, kBusy, kYes };

// A copy is cut like the replica that it is made from.
struct CopyRequest {
  const PlacedReplica& like;
  absl::Span<const PlacedReplica> others = {};  // that stay
  absl::FunctionRef<Fit(NodeIndex)> fit;
  absl::Time now = absl::InfiniteFuture();
  bool in_any_domain = false;  // rather than in none
};
enum class CopyBar : uint8_t { kBusy, kNoNode, kNoRoom };
struct CopyPlacement {
  std::optional<PlacedReplica> placed = {};
  CopyBar bar = CopyBar::kNoRoom;        // why nothing is placed
  std::vector<NodeIndex> too_full = {};  // kNoRoom: those that would do if they had room
};

class Placement {
 public:
  Placement(NodeTable& nodes, Random& random, const CoreOptions& options)
      : nodes_(nodes), random_(random), options_(options) {}

  // In one extent, or a few (easy_parts), in the best failure domain that the nodes offer.
  std::optional<PlacedReplica> Place(const PlacementRequest& request);
  // In as many extents as it takes, in any failure domain.
  std::optional<PlacedReplica> PlaceAnyhow(const PlacementRequest& request);
  // In the best failure domain that the fitting nodes offer; kBusy where a better place may come
  // free soon.
  CopyPlacement PlaceCopy(const CopyRequest& request);
  void GiveBack(const PlacedReplica& replica);

 private:
  // Nodes that differ from those of the other replicas in this.
  enum class Domain { kRack, kHost, kNode };
  using Candidates = std::vector<NodeIndex>;

  Candidates CandidatesIn(Domain domain, absl::Span<const PlacedReplica> others) const;
  // The strictest domain whose nodes could hold the replica if they were empty.
  Candidates BestCandidates(const PlacementRequest& request) const;
  std::optional<PlacedReplica> PlaceIn(absl::Span<const NodeIndex> candidates,
                                       const PlacementRequest& request, size_t max_parts);
  // The share of a full one that the node gets: it grows with its age while it is filled.
  double WeightOf(NodeIndex node, absl::Time now) const;
  // Any of them, with its weight.
  NodeIndex PickOne(absl::Span<const NodeIndex> candidates, absl::Time now);
  std::optional<PlacedReplica> TakeLike(absl::Span<const NodeIndex> candidates,
                                        const CopyRequest& request);
  // A node with room for the whole, 0 when there is none.
  NodeIndex ChooseNode(absl::Span<const NodeIndex> candidates, const PlacementRequest& request);
  std::optional<PlacedReplica> Stripe(absl::Span<const NodeIndex> candidates,
                                      const PlacementRequest& request);
  std::optional<PlacedReplica> JoinHoles(absl::Span<const NodeIndex> candidates,
                                         uint64_t size_bytes, size_t max_parts);
  // One contiguous part on this node.
  std::optional<StoredPart> Take(NodeIndex node, uint64_t payload_bytes);

  NodeTable& nodes_;
  Random& random_;
  const CoreOptions& options_;
};

}  // namespace moonpool::master
