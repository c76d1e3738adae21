// The data server for processes on the same host: a Unix socket that hands out the pool's memory.
//
// A peer gets the segments' memory read-only, and a page of its own in which it pins the
// generations it views (shm/pin_page.h). Reads and views then need no message at all. A peer of the
// same user may also get the memory writable and write into extents it has claimed; everybody
// else's payload comes through the socket. When the socket closes, for whatever reason, the peer's
// claims and pins are gone.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/log.h"
#include "common/types.h"
#include "transport/server.h"
#include "transport/stream/limits.h"
#include "transport/stream/stream_backend.h"
#include "transport/target.h"

namespace moonpool::transport {

// One segment of the pool. The descriptor is borrowed until Stop, and open for reading and writing:
// a memfd that is sealed against shrinking, or a file of this user's on tmpfs or hugetlbfs, since
// no client maps what could be pulled from under it (shm/mapping.h). Such a file is never made
// shorter, after Stop neither: clients that hold views keep it mapped.
struct ShmSegment {
  SegmentId id;
  int fd = -1;
  uint64_t bytes = 0;
};

struct ShmServerOptions {
  // At most 107 bytes. A stale socket of a dead server is replaced, a live one is an error.
  std::string socket_path;
  unsigned socket_mode = 0600;
  // Same user only: hand out writable memory to peers that ask for it. The node cannot stop such a
  // writer: its bytes stay claimed until it seals, releases or dies. When the node dies instead, a
  // writer notices before its next step of a copy; one that is stopped in the very middle of a step
  // and goes on after the node's next life has given the bytes away damages them (their readers'
  // checksums tell), unless that life knows of it (pins_dir). False: every payload goes through the
  // socket, and no client can do that.
  bool mapped_writers = true;
  // Views that one peer process may hold at a time. 1 to 65536.
  uint32_t pin_slots = 4096;
  // Where the node's pool outlives it: a folder on tmpfs for the pages of pins, of this node alone,
  // made if there is none (8 bytes per slot and peer process). The next life calls AdoptPinPages
  // (shm/orphan_pins.h) on it before it starts a server: it then knows the views that are still
  // looked at and the mapped writers that may still write. A peer that is connected when the server
  // stops is left to that life, too. Empty: pins end with the node, as its pool does.
  std::string pins_dir = {};
  // The idle timeout does not apply: an idle connection holds pins.
  StreamServerLimits limits = {};
};

// Borrows target, clock and logger until Stop has returned. Start takes group and others' rights to
// the segments' files away (fchmod 0600): a process of another user that has been given read-only
// memory cannot open it for writing through /proc.
std::unique_ptr<Server> NewShmServer(Target& target, std::vector<ShmSegment> segments,
                                     ShmServerOptions options, const Clock& clock, Logger& logger);

// What such a server adds to the common one, for whoever drives its connections without threads.
std::unique_ptr<StreamBackend> NewShmBackend(Target& target, std::vector<ShmSegment> segments,
                                             const ShmServerOptions& options);

}  // namespace moonpool::transport
