// The page in which one client process pins the generations it views: shared memory between the
// node, which scans it, and the client, which writes it.
//
// Little-endian, one memfd or file (pin_file.h) per connection:
//     0  u32  magic "MPPN"
//     4  u32  number of slots
//     8  u32  slots below this have ever been used (raised by the client)
//    12  u32  1 once the node has closed the connection: no pin holds any more (set by the node)
//    16       reserved, 0
//    64  u64  per slot: the pinned generation, 0 = free
//
// To pin: store the generation in a slot, then look at the part header again. To take the bytes:
// invalidate the part header, then scan the slots. All four are sequentially consistent, so at
// least one side sees the other. The node trusts nothing in the page: a client that scribbles in it
// only loses, or keeps, its own pins.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "common/types.h"
#include "common/unique_fd.h"
#include "transport/shm/mapping.h"
#include "transport/target.h"

namespace moonpool::transport {

inline constexpr uint32_t kPinSlotsMax = 65536;
inline constexpr size_t kPinSlotsAt = 64;
inline constexpr size_t PinPageBytes(uint32_t slots) { return kPinSlotsAt + 8 * size_t{slots}; }

inline constexpr uint32_t kPinMagic = 0x4e50504d;  // "MPPN"
inline constexpr size_t kPinSlotCountAt = 4;
inline constexpr size_t kPinHighWaterAt = 8;
inline constexpr size_t kPinsClosedAt = 12;

// The node's end. Thread-safe.
class PinPage : public ViewPins {
 public:
  // In a memfd that cannot change its size: a client cannot pull it from under the node.
  static absl::StatusOr<std::unique_ptr<PinPage>> Create(uint32_t slots);

  // For the client.
  virtual int fd() const = 0;
  // Tells the client that its pins hold no longer.
  virtual void Close() = 0;
  // The node stops, and its client goes on. A page that can be found again is left to the next
  // life; a memfd cannot.
  virtual void LeaveToNextLife() {}
};

// The client's end. Thread-safe and lock-free: a stack of free slots, so that few pins use few
// slots and the node's scan stays short. Belongs to the process that made it: in a forked child it
// is closed, and releasing does nothing.
class PinSlots {
 public:
  static absl::StatusOr<std::unique_ptr<PinSlots>> Map(int fd, uint32_t slots,
                                                       const FileTrust& trust = {});
  PinSlots(Mapping mapping, uint32_t slots);

  // RESOURCE_EXHAUSTED/LIMIT_REACHED when every slot is taken; FAILED_PRECONDITION in a child.
  absl::StatusOr<uint32_t> Acquire(Generation generation);
  void Release(uint32_t slot);
  bool is_closed() const;

 private:
  static constexpr uint32_t kNone = UINT32_MAX;

  std::atomic_ref<uint64_t> Slot(uint32_t slot);

  const uint64_t fork_epoch_;
  const Mapping mapping_;
  const uint32_t slots_;
  // Low half: the first free slot; high half: a count of changes, against ABA.
  std::atomic<uint64_t> free_;
  std::vector<std::atomic<uint32_t>> next_;
};

}  // namespace moonpool::transport
