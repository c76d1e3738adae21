// What storage nodes tell the core, and what the core asks of them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/types.h"
#include "master/core/commands.h"
#include "master/core/durable.h"

namespace moonpool::master {

// One life of a node's stream; a newer session of the same node makes older ones void. Never 0.
struct SessionId {
  uint64_t value = 0;
  auto operator<=>(const SessionId&) const = default;
};

// Nodes of this minor wire version and newer ones take copies.
inline constexpr uint32_t kCopyMinor = 3;

struct SegmentSpec {
  SegmentId segment = {};
  std::string medium = {};  // dram, vram, cxl, nvme, shared
  uint64_t capacity_bytes = 0;
};
struct RegisterNodeCommand {
  std::string name = {};
  Incarnation incarnation = {};
  std::string host_id = {};
  std::string rack = {};
  std::string tcp_address = {};
  std::string shm_path = {};
  std::vector<SegmentSpec> segments = {};
  Term highest_term_seen = {};
  uint32_t wire_minor = 0;  // of the node's wire version; copies need kCopyMinor
};
struct Registration {
  NodeId node = {};  // a new one for each incarnation
  SessionId session = {};
  Term term = {};          // the core's, which registering may have raised
  Generation newest = {};  // granted so far
  // The node is not to be told before this change is durable.
  ChangeNumber saved_by = 0;
};

// One part that is sealed at a node: from its inventory or a seal report.
struct SealedPart {
  Generation generation = {};
  absl::string_view name_space = {};  // and fingerprint: SplitPartNamespace (common/names.h)
  absl::string_view key = {};
  absl::string_view parent = {};
  Extent extent = {};
  uint64_t object_bytes = 0;
  uint32_t part_index = 0;
  uint32_t part_count = 1;
  uint32_t replica_index = 0;
  uint32_t replicas = 0;  // that the object is to have; 0: replica_index + 1 at least
};

// A part whose bytes were found damaged: its node has forgotten it.
struct LostPart {
  Generation generation = {};
  Extent extent = {};
};

struct NodeAddress {
  NodeId node = {};
  std::string name = {};
  Incarnation incarnation = {};
  std::string host_id = {};
  std::string tcp_address = {};
  std::string shm_path = {};
};
// The same of a node as it is now: until the next command.
struct NodeAddressView {
  NodeId node = {};
  absl::string_view name = {};
  Incarnation incarnation = {};
  absl::string_view host_id = {};
  absl::string_view tcp_address = {};
  absl::string_view shm_path = {};
};
struct SegmentStatus {
  SegmentId segment = {};
  std::string medium = {};
  uint64_t used_bytes = 0;
  uint64_t capacity_bytes = 0;
  uint64_t largest_free_bytes = 0;
};
// How far a drain has come.
struct DrainStatus {
  // The node is known to hold nothing, and what it held was not lost with it.
  bool is_done = false;
  uint64_t parts_left = 0;
  uint64_t bytes_left = 0;     // parts that wait for others of their object are among them
  uint64_t moved_objects = 0;  // replicas that have left for it
  uint64_t moved_bytes = 0;
  // Objects that could not move when they were last looked at, and why.
  uint64_t without_node = 0;  // no other node may have it: its replicas stand on all of them
  uint64_t without_room = 0;  // what may be evicted for it leaves no hole of its size
  uint64_t unreadable = 0;    // its replicas are away, or were found damaged
  uint64_t leased = 0;        // copied; the old replica stays until its lease has ended
};
struct NodeStatus {
  NodeAddress address = {};
  std::string rack = {};
  bool is_up = false;
  bool inventory_complete = false;
  uint64_t parts = 0;  // live and granted parts of objects here (an object has one or more)
  uint64_t used_bytes = 0;
  uint64_t granted_bytes = 0;
  uint64_t condemned_bytes = 0;
  uint64_t capacity_bytes = 0;
  absl::Duration last_heard = {};  // ago
  std::vector<SegmentStatus> segments = {};
  uint32_t copies = 0;  // parts that it gives or takes now
  std::optional<DrainStatus> drain = {};
  std::optional<uint64_t> parts_max = {};  // its journal cannot grow
};

// Forget these generations if they still own their bytes. Answered through
// Core::CommandResult; may be sent more than once under the same id.
struct FreeCommand {
  NodeId node = {};
  SessionId session = {};
  uint64_t command_id = 0;
  std::vector<Generation> generations = {};
  // Of all grants, when it was sent. Nothing below the oldest open one may be written any more.
  Generation oldest_open = {};
  Generation newest = {};
};
// Fetch one part from another node and seal it here, see Copy in membership.proto. Answered through
// Core::CommandResult; never repeated.
struct CopyCommand {
  NodeId node = {};
  SessionId session = {};
  uint64_t command_id = 0;
  Generation generation = {};
  std::string name_space = {};  // and fingerprint
  std::string key = {};
  std::string parent = {};
  Extent extent = {};
  uint64_t object_bytes = 0;
  uint32_t part_index = 0;
  uint32_t part_count = 1;
  uint32_t replica_index = 0;
  uint32_t replicas = 0;  // that the object is to have
  Generation claim = {};
  NodeAddress source = {};
  Extent source_extent = {};
  absl::Duration timeout = {};
};
// What is to be done outside after commands were applied.
struct Effects {
  std::vector<FreeCommand> frees = {};
  std::vector<CopyCommand> copies = {};
  std::vector<RemoveTicket> removes_done = {};
  std::vector<NodeId> to_register = {};  // their sessions are over, and they have to begin anew
  // To be kept for the masters to come. The first one's number follows that of the last one before.
  std::vector<DurableChange> unsaved = {};
};

}  // namespace moonpool::master
