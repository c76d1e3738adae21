// Ids and places: the nouns of the glossary (ARCHITECTURE.md) as types that do not mix.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace moonpool {

// Limits of the wire and of the index. A key is any bytes, 1 to kMaxKeyBytes of them.
inline constexpr size_t kMaxKeyBytes = 1024;
inline constexpr size_t kMaxNamespaceBytes = 255;
// Names of nodes, hosts, racks; layout fingerprints.
inline constexpr size_t kMaxLabelBytes = 255;
inline constexpr size_t kMaxBatchKeys = 16384;
// A replica has at most this many extents (parts).
inline constexpr size_t kMaxPartsPerReplica = 256;
inline constexpr size_t kMaxReplicas = 8;
// Every part starts with a header in pool memory; its layout is in transport/part_header.h.
inline constexpr uint64_t kPartHeaderBytes = 64;

// Number of one master leadership. Grows for ever; 0 = none.
struct Term {
  uint32_t value = 0;
  auto operator<=>(const Term&) const = default;
};
// Elections count no further: what names a later one is garbled, and would lock out every leader to
// come.
inline constexpr Term kTermMax{0xffff0000};

// One put attempt, never reused. The term is the high half, so a generation granted by a newer
// leader is always the greater one. 0 = none.
struct Generation {
  uint64_t value = 0;
  static constexpr Generation Of(Term term, uint32_t counter) {
    return Generation{(uint64_t{term.value} << 32) | counter};
  }
  constexpr Term term() const { return Term{static_cast<uint32_t>(value >> 32)}; }
  constexpr uint32_t counter() const { return static_cast<uint32_t>(value); }
  auto operator<=>(const Generation&) const = default;
};

// Assigned by the master per node name for the life of a term.
struct NodeId {
  uint32_t value = 0;
  auto operator<=>(const NodeId&) const = default;
};

// One life of a node's pool: a new one when the bytes are gone. Random, never 0.
struct Incarnation {
  uint64_t value = 0;
  auto operator<=>(const Incarnation&) const = default;
};

// Position of a segment within its node.
struct SegmentId {
  uint32_t value = 0;
  auto operator<=>(const SegmentId&) const = default;
};

// Contiguous bytes of one segment that belong to one part of a replica: the part header and then
// the payload.
struct Extent {
  SegmentId segment;
  uint64_t offset = 0;
  uint64_t length = 0;  // header and payload, without the allocator's rounding
  constexpr uint64_t end() const { return offset + length; }
  constexpr uint64_t payload_bytes() const { return length - kPartHeaderBytes; }
  auto operator<=>(const Extent&) const = default;
};

template <typename H>
H AbslHashValue(H h, const Generation& g) {
  return H::combine(std::move(h), g.value);
}
template <typename H>
H AbslHashValue(H h, const NodeId& id) {
  return H::combine(std::move(h), id.value);
}
template <typename H>
H AbslHashValue(H h, const Incarnation& i) {
  return H::combine(std::move(h), i.value);
}
template <typename H>
H AbslHashValue(H h, const SegmentId& id) {
  return H::combine(std::move(h), id.value);
}

// "7.42": term and counter, as in logs and in `moonpool why`.
inline std::string ToString(Generation g) { return absl::StrCat(g.term().value, ".", g.counter()); }
inline std::string ToString(const Extent& e) {
  return absl::StrCat("segment ", e.segment.value, " [", e.offset, ", ", e.end(), ")");
}

}  // namespace moonpool
