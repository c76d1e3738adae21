// The node's side of the transport: what a server (tcp, shm, sim) may do to the pool on behalf of
// a peer. Implemented by storage_node/serve, and by a fake in the conformance suite.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/types.h"
#include "transport/ops.h"

namespace moonpool::transport {

// The right to write the payload of one extent under one generation, until a newer generation
// claims any of its bytes (rule R2) or it is sealed. A newer claim waits for the step that is
// running, so steps are short (one non-blocking receive) and a late writer never writes a byte
// into the extent of the next owner. Destroying it gives up what was not sealed (and nothing of a
// claim that has superseded it).
class WriteClaim {
 public:
  virtual ~WriteClaim() = default;
  virtual MutableBytes payload() = 0;
  // True: the claim holds and nobody takes the bytes until EndStep. False: superseded, for good.
  virtual bool BeginStep() = 0;
  virtual void EndStep() = 0;
  // All payload bytes are in place; a seal is accepted from now on.
  virtual void SetWritten() = 0;
};

// Who writes into the payload: this process step by step, or a process that has the memory
// mapped and cannot be stopped. A mapped claim is never superseded: newer claims are refused
// with BYTES_PINNED until it is destroyed.
enum class WriterKind { kStepwise, kMapped };

// Generations that a local viewer pins (hazard slots in shared memory). A new owner first calls
// InvalidatePartHeader for every sealed part it would replace, then asks Holds for each, and puts
// the headers back (RestorePartHeader) when the answer is yes: both are sequentially consistent, so
// a view is either seen here or finds the header invalid. The same holds for a part that is removed
// or moved. Thread-safe.
class ViewPins {
 public:
  virtual ~ViewPins() = default;
  virtual bool Holds(Generation generation) const = 0;
};

// Thread-safe; no call blocks on I/O.
class Target {
 public:
  virtual ~Target() = default;

  virtual Incarnation incarnation() const = 0;

  // Header and payload of a sealed part, as they stand in memory. NOT_FOUND/STALE_GENERATION
  // unless exactly this generation owns exactly this extent and it is sealed. The memory stays
  // mapped for the target's life, but its bytes may get a newer owner at any moment: the reader's
  // checksum finds that, or whoever copies them calls this again afterwards. OK then means that all
  // of the copy is this generation's: an owner is entered, under the same lock, before its first
  // byte is written, and what was loaded before this call takes the lock cannot come from a write
  // after this call has released it.
  virtual absl::StatusOr<ConstBytes> OpenRead(Generation generation, const Extent& extent) = 0;

  // Takes the extent for a generation. Older owners of any of its bytes are superseded (their
  // records go, their headers are invalidated). A repeated claim of the same generation (a retry on
  // another connection) supersedes the earlier claim, too. INVALID_ARGUMENT: outside every segment,
  // or unaligned. FAILED_PRECONDITION/STALE_TERM or STALE_GENERATION: the term is older than the
  // newest seen, or a newer owner has some byte. ALREADY_EXISTS: this very generation is sealed
  // here already (a repeated write: discard the payload, the seal will be OK).
  // UNAVAILABLE/BYTES_PINNED: a view or a mapped writer holds some byte.
  virtual absl::StatusOr<std::shared_ptr<WriteClaim>> Claim(Generation generation,
                                                            const Extent& extent,
                                                            WriterKind kind) = 0;

  // Idempotent. Writes the part header and records the seal before it returns OK (R3).
  // FAILED_PRECONDITION/STALE_GENERATION when the generation does not own the extent;
  // FAILED_PRECONDITION/BAD_ARGUMENT when the payload is not completely written.
  virtual absl::Status Seal(const SealRecord& record) = 0;

  // A reader says that it found this part damaged. Nobody is believed: the node has a reason to
  // look for itself, later and on another thread.
  virtual void Doubt(Generation generation, const Extent& extent) = 0;

  // While attached, generations that the viewer holds keep their bytes. The viewer is detached
  // before it is destroyed.
  virtual void AttachViewer(const ViewPins* viewer) = 0;
  virtual void DetachViewer(const ViewPins* viewer) = 0;
};

}  // namespace moonpool::transport
