// What an operator may set of the core, and the bounds of everything it keeps.
#pragma once

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "common/types.h"

namespace moonpool::master {

// Ids of namespaces have 16 bits.
inline constexpr uint32_t kMaxNamespaces = 0xffff;

// Orders to copy that a node holds at a time. It refuses what is beyond.
inline constexpr uint32_t kMostCopiesOfNode = 256;
static_assert(kMostCopiesOfNode >= kMaxPartsPerReplica, "else some could never be copied");

struct CoreOptions {
  // Behaviour.
  std::string eviction_policy = "cohort";
  absl::Duration max_grant = absl::Seconds(30);  // longest life of a grant
  absl::Duration max_spare = absl::Seconds(5);   // and of one that names no key yet
  // Spares may have this share of what is free, as long as this share of the capacity is.
  double spare_fraction = 1.0 / 16;
  double spare_free_min = 1.0 / 8;
  // Longest lease that is given. Also how long a new master evicts nothing that it adopted: long
  // leases are paid for with a full pool that takes no puts after a restart.
  absl::Duration max_lease = absl::Seconds(3);
  absl::Duration condemn_duration =
      absl::Seconds(1);  // extents pinned at their node rest this long
  absl::Duration node_loss_timeout = absl::Seconds(5);
  // A command to a node that brought no result is sent again after this time.
  absl::Duration command_retry = absl::Seconds(5);
  // Adopted objects may be leased by an older leader: none of them is evicted or freed before this
  // time has passed since the first command. Negative: max_lease.
  absl::Duration takeover_hold = absl::Seconds(-1);
  // The first master that keeps durable state takes what any node holds, since its registry is
  // empty. So long after its start every node that is worth it has registered: the next master
  // takes objects only from those.
  absl::Duration registry_open = absl::Seconds(60);
  // Parts of striped objects from inventories wait this long for the parts that are missing.
  absl::Duration partial_timeout = absl::Seconds(60);
  // Copies between nodes: repair of lost replicas, drains, and more replicas of what is hot.
  uint64_t copy_bandwidth = uint64_t{256} << 20;  // bytes per second that a node gives and takes
  // Parts in flight of a node, at most kMostCopiesOfNode; with the last copy it may be more.
  uint32_t copies_per_node = 64;
  absl::Duration copy_timeout = absl::Seconds(10);  // and eight times what the bandwidth says
  absl::Duration copy_retry = absl::Seconds(5);     // after a failure, or when there was no room
  // An object that is read so often within a window gets another replica, up to so many more than
  // its writer asked for. It loses them after three windows without a read.
  uint32_t hot_reads = 10'000;
  absl::Duration hot_window = absl::Seconds(10);
  uint32_t hot_max_replicas = 2;
  uint32_t max_hot_objects = 1u << 16;
  // A node that comes empty gets a share of the puts that grows to its full one in this time.
  absl::Duration node_ramp = absl::Seconds(60);
  // Share of the capacity that the leases of one namespace may hold.
  double leased_fraction = 0.25;

  // Layout of replicas.
  uint64_t stripe_bytes = uint64_t{64} << 20;    // larger objects are spread over nodes
  uint64_t min_part_bytes = uint64_t{64} << 10;  // no smaller parts, the last one aside
  // Holes are joined up to this many parts before anything is evicted for a put.
  uint32_t easy_parts = 8;

  // Bounds. Reaching one is answered with RESOURCE_EXHAUSTED/LIMIT_REACHED, where nothing else is
  // said.
  uint32_t max_objects = 0xf0000000;  // slots: live, granted, and absent parents of live objects
  uint32_t max_open_grants = 1u << 18;
  uint32_t max_leases = 1u << 20;  // per namespace; then locations come without a lease
  uint32_t max_tombstones = 1u << 18;
  // Of each node: 5 MiB of one that stays away. Beyond, nothing is refused: its inventory is taken
  // anew.
  uint32_t max_debts = 1u << 16;
  uint32_t max_nodes = 4096;
  uint32_t max_segments_per_node = 64;
  uint32_t max_namespaces = 4096;           // at most kMaxNamespaces
  uint32_t max_partial_objects = 1u << 20;  // inventory: objects of which parts are missing
  uint32_t max_touches = 4096;
  uint32_t obituaries = 1u << 18;
  uint32_t max_events = 1u << 16;  // the last ones, for who follows them; 0: nobody can

  // Work bounds.
  uint32_t evictions_per_put = 1u << 14;  // per key of a batch
  // Expiries, dropped replicas, repeated commands: a few microseconds each when nothing of them is
  // in a cache, and everybody else waits.
  uint32_t work_per_tick = 64;
  // Of the looking for copies to make and for room for them: an object is done with in one slice,
  // or others come in between and what it had found is looked for again.
  uint32_t copy_work_per_tick = 256;
  uint32_t list_slots_per_call = 1u << 16;  // slots that one ListObjects looks at
  uint32_t snapshot_slots_per_call = 4096;  // and one StoredFrom
};

}  // namespace moonpool::master
