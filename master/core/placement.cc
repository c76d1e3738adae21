#include "master/core/placement.h"

#include <algorithm>
#include <utility>

namespace moonpool::master {
namespace {

uint64_t DivideUp(uint64_t a, uint64_t b) { return (a + b - 1) / b; }

// Payloads of stripes start on pages of the object, so that they can be read into pages.
constexpr uint64_t kStripeAlignment = 4096;
// Of a node that has just come empty; and how often another one is looked at instead.
constexpr double kLeastWeight = 0.02;
constexpr int kTriesToPick = 6;

}  // namespace

std::optional<PlacedReplica> Placement::Place(const PlacementRequest& request) {
  if (request.others.empty()) return PlaceIn(nodes_.usable(), request, options_.easy_parts);
  return PlaceIn(BestCandidates(request), request, options_.easy_parts);
}

std::optional<PlacedReplica> Placement::PlaceAnyhow(const PlacementRequest& request) {
  for (const Domain domain : {Domain::kRack, Domain::kHost, Domain::kNode}) {
    if (auto placed = PlaceIn(CandidatesIn(domain, request.others), request, kMaxPartsPerReplica)) {
      return placed;
    }
    if (request.others.empty()) break;  // all domains are the same then
  }
  return std::nullopt;
}

void Placement::GiveBack(const PlacedReplica& replica) {
  for (const StoredPart& part : replica) {
    nodes_[part.node].segments[part.segment].allocator.Free(part.offset, part.length);
  }
}

Placement::Candidates Placement::CandidatesIn(Domain domain,
                                              absl::Span<const PlacedReplica> others) const {
  Candidates candidates;
  for (const NodeIndex index : nodes_.usable()) {
    const NodeRecord& node = nodes_[index];
    bool is_apart = true;
    for (const PlacedReplica& other : others) {
      for (const StoredPart& part : other) {
        const NodeRecord& taken = nodes_[part.node];
        if (taken.index == index) is_apart = false;
        if (domain != Domain::kNode && node.host != 0 && node.host == taken.host) is_apart = false;
        if (domain == Domain::kRack && node.rack != 0 && node.rack == taken.rack) is_apart = false;
      }
    }
    if (is_apart) candidates.push_back(index);
  }
  return candidates;
}

Placement::Candidates Placement::BestCandidates(const PlacementRequest& request) const {
  Candidates candidates;
  for (const Domain domain : {Domain::kRack, Domain::kHost, Domain::kNode}) {
    candidates = CandidatesIn(domain, request.others);
    uint64_t capacity = 0;
    for (const NodeIndex index : candidates) capacity += nodes_[index].capacity_bytes();
    if (capacity >= request.size_bytes + kPartHeaderBytes) break;
  }
  return candidates;
}

std::optional<PlacedReplica> Placement::PlaceIn(absl::Span<const NodeIndex> candidates,
                                                const PlacementRequest& request, size_t max_parts) {
  if (candidates.empty()) return std::nullopt;
  if (request.size_bytes > options_.stripe_bytes) {
    if (auto striped = Stripe(candidates, request)) return striped;
  }
  if (const NodeIndex node = ChooseNode(candidates, request); node != 0) {
    if (auto part = Take(node, request.size_bytes)) return PlacedReplica{*part};
  }
  if (request.size_bytes <= options_.min_part_bytes || max_parts < 2) return std::nullopt;
  // On one node if possible, the writer's own if possible.
  for (const NodeIndex own : nodes_.usable_on(request.writer_host)) {
    if (std::find(candidates.begin(), candidates.end(), own) == candidates.end()) continue;
    const NodeIndex alone[] = {own};
    if (auto placed = JoinHoles(alone, request.size_bytes, max_parts)) return placed;
  }
  const NodeIndex random[] = {candidates[random_.Below(candidates.size())]};
  if (auto placed = JoinHoles(random, request.size_bytes, max_parts)) return placed;
  return JoinHoles(candidates, request.size_bytes, max_parts);
}

double Placement::WeightOf(NodeIndex node, absl::Time now) const {
  const absl::Duration age = now - nodes_[node].empty_since;
  if (age >= options_.node_ramp) return 1;
  // As FDivDuration, which takes a tenth of all that a put takes here.
  const auto nanoseconds = [](absl::Duration d) {
    return static_cast<double>(absl::ToInt64Nanoseconds(d));
  };
  return std::max(kLeastWeight, nanoseconds(age) / nanoseconds(options_.node_ramp));
}

NodeIndex Placement::PickOne(absl::Span<const NodeIndex> candidates, absl::Time now) {
  NodeIndex node = candidates[random_.Below(candidates.size())];
  // Where all have come empty they are equal all the same.
  for (int i = 0; i < kTriesToPick; ++i) {
    const double weight = WeightOf(node, now);
    if (weight >= 1 || random_.Uniform() < weight) break;
    node = candidates[random_.Below(candidates.size())];
  }
  return node;
}

NodeIndex Placement::ChooseNode(absl::Span<const NodeIndex> candidates,
                                const PlacementRequest& request) {
  const uint64_t need = request.size_bytes + kPartHeaderBytes;
  NodeIndex best = 0;
  double best_free = 0;
  const auto consider = [&](NodeIndex index, double weight) {
    const NodeRecord& node = nodes_[index];
    if (node.largest_free_bytes() < need) return;
    const double free_bytes = static_cast<double>(node.free_bytes()) * weight;
    if (free_bytes <= best_free) return;
    best = index;
    best_free = free_bytes;
  };
  for (const NodeIndex own : nodes_.usable_on(request.writer_host)) {
    if (std::binary_search(candidates.begin(), candidates.end(), own)) consider(own, 1);
  }
  if (best != 0) return best;
  for (int i = 0; i < 2; ++i) {
    const NodeIndex node = PickOne(candidates, request.now);
    consider(node, WeightOf(node, request.now));
  }
  if (best != 0) return best;
  for (const NodeIndex index : candidates) {
    if (WeightOf(index, request.now) == 1) consider(index, 1);
  }
  if (best != 0) return best;
  for (const NodeIndex index : candidates) consider(index, WeightOf(index, request.now));
  return best;
}

CopyPlacement Placement::PlaceCopy(const CopyRequest& request) {
  uint64_t need = 0;
  for (const StoredPart& part : request.like) need += part.length;
  CopyPlacement to{.bar = CopyBar::kNoNode};
  for (const Domain domain : {Domain::kRack, Domain::kHost, Domain::kNode}) {
    Candidates ready;
    bool is_busy = false;
    uint64_t capacity = 0;
    for (const NodeIndex index : CandidatesIn(domain, request.others)) {
      const Fit fit = request.fit(index);
      if (fit == Fit::kNo) continue;
      capacity += nodes_[index].capacity_bytes();
      if (fit == Fit::kBusy) {
        is_busy = true;
      } else {
        ready.push_back(index);
      }
    }
    if (capacity < need) continue;
    if (auto placed = TakeLike(ready, request)) return {.placed = std::move(placed)};
    if (is_busy) return {.bar = CopyBar::kBusy};
    to = {.bar = CopyBar::kNoRoom, .too_full = std::move(ready)};
    if (!request.in_any_domain) break;
  }
  return to;
}

std::optional<PlacedReplica> Placement::TakeLike(absl::Span<const NodeIndex> candidates,
                                                 const CopyRequest& request) {
  if (candidates.empty()) return std::nullopt;
  PlacedReplica placed;
  for (const StoredPart& part : request.like) {
    const uint64_t payload = part.length - kPartHeaderBytes;
    const PlacementRequest one{.size_bytes = payload, .now = request.now};
    // Stripes stay on nodes of their own while there are some.
    Candidates unused(candidates.begin(), candidates.end());
    std::erase_if(unused, [&](NodeIndex index) {
      return std::any_of(placed.begin(), placed.end(),
                         [&](const StoredPart& taken) { return taken.node == index; });
    });
    NodeIndex node = unused.empty() ? 0 : ChooseNode(unused, one);
    if (node == 0) node = ChooseNode(candidates, one);
    const auto taken = node == 0 ? std::nullopt : Take(node, payload);
    if (!taken.has_value()) {
      GiveBack(placed);
      return std::nullopt;
    }
    placed.push_back(*taken);
  }
  return placed;
}

std::optional<PlacedReplica> Placement::Stripe(absl::Span<const NodeIndex> candidates,
                                               const PlacementRequest& request) {
  // The other replicas need nodes of their own.
  const size_t left = request.replicas - std::min<size_t>(request.replicas, request.others.size());
  const uint64_t count =
      std::min<uint64_t>({DivideUp(request.size_bytes, options_.stripe_bytes),
                          candidates.size() / std::max<size_t>(left, 1), kMaxPartsPerReplica});
  if (count < 2) return std::nullopt;
  const uint64_t stripe =
      DivideUp(DivideUp(request.size_bytes, count), kStripeAlignment) * kStripeAlignment;
  Candidates order(candidates.begin(), candidates.end());
  std::stable_sort(order.begin(), order.end(), [&](NodeIndex a, NodeIndex b) {
    const auto room = [&](NodeIndex index) {
      return static_cast<double>(nodes_[index].free_bytes()) * WeightOf(index, request.now);
    };
    return room(a) > room(b);
  });
  PlacedReplica placed;
  uint64_t remaining = request.size_bytes;
  for (const NodeIndex node : order) {
    const auto part = Take(node, std::min(stripe, remaining));
    if (!part.has_value()) continue;
    placed.push_back(*part);
    remaining -= std::min(stripe, remaining);
    if (remaining == 0) return placed;
  }
  GiveBack(placed);
  return std::nullopt;
}

std::optional<PlacedReplica> Placement::JoinHoles(absl::Span<const NodeIndex> candidates,
                                                  uint64_t size_bytes, size_t max_parts) {
  uint64_t free_bytes = 0;
  for (const NodeIndex index : candidates) free_bytes += nodes_[index].free_bytes();
  if (free_bytes < size_bytes + kPartHeaderBytes) return std::nullopt;
  PlacedReplica placed;
  uint64_t remaining = size_bytes;
  while (remaining > 0 && placed.size() < max_parts) {
    NodeIndex roomiest = candidates[0];
    for (const NodeIndex index : candidates) {
      if (nodes_[index].largest_free_bytes() > nodes_[roomiest].largest_free_bytes()) {
        roomiest = index;
      }
    }
    const uint64_t hole = nodes_[roomiest].largest_free_bytes();
    if (hole <= kPartHeaderBytes) break;
    const uint64_t payload = std::min(remaining, hole - kPartHeaderBytes);
    if (payload < std::min(remaining, options_.min_part_bytes)) break;
    placed.push_back(*Take(roomiest, payload));
    remaining -= payload;
  }
  if (remaining == 0) return placed;
  GiveBack(placed);
  return std::nullopt;
}

std::optional<StoredPart> Placement::Take(NodeIndex node, uint64_t payload_bytes) {
  const uint64_t length = payload_bytes + kPartHeaderBytes;
  if (!nodes_[node].has_room_for_part()) return std::nullopt;
  std::vector<NodeSegment>& segments = nodes_[node].segments;
  // The fullest segment that fits keeps the large holes of the others whole.
  NodeSegment* best = nullptr;
  for (NodeSegment& segment : segments) {
    if (segment.allocator.largest_free_bytes() < length) continue;
    if (best == nullptr ||
        segment.allocator.largest_free_bytes() < best->allocator.largest_free_bytes()) {
      best = &segment;
    }
  }
  if (best == nullptr) return std::nullopt;
  return StoredPart{.offset = *best->allocator.Allocate(length),
                    .length = length,
                    .node = node,
                    .segment = static_cast<uint16_t>(best->spec.segment.value)};
}

}  // namespace moonpool::master
