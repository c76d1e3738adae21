// Memory of another process in this one, and whose memory that may be.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "transport/ops.h"

namespace moonpool::transport {

// Who besides root and this process's own user is trusted with the life of this process.
struct FileTrust {
  // The user whose process has handed the descriptor over; unknown: trusted with nothing.
  std::optional<uint32_t> giver = {};
  absl::Span<const uint32_t> trusted_uids = {};
};

// OK when nobody cuts the file behind `fd` short. Whoever touches a mapping beyond the end of its
// file is killed (SIGBUS), so a file that others can cut short is a way to kill all who map it.
// Either the kernel keeps it whole: a memfd, sealed against shrinking. Or the trusted do: a regular
// file that belongs to one of them, that neither its group nor others may write, and that a trusted
// user's process has handed over; anybody could hand over what they may only read, such as a file
// that its owner cuts short every day. It is on tmpfs or hugetlbfs: elsewhere a page may fail to be
// read, and what a file system says of the owner may come from an unprivileged process (FUSE).
// UNAVAILABLE/BAD_FRAME says what is wrong; the hint names ClientOptions::trusted_uids where that
// is the remedy.
absl::Status CheckKeepsItsLength(int fd, const FileTrust& trust);

// The user at the other end of a connected Unix socket.
std::optional<uint32_t> PeerUser(int socket);

// A mapping that is undone with its owner. Move-only; otherwise thread-safe.
class Mapping {
 public:
  Mapping() = default;
  Mapping(Mapping&& other) noexcept { *this = std::move(other); }
  Mapping& operator=(Mapping&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    std::swap(is_writable_, other.is_writable_);
    std::swap(touched_, other.touched_);
    return *this;
  }
  ~Mapping();
  // Shared. UNAVAILABLE/BAD_FRAME when the file is shorter than `bytes`, or could become so.
  static absl::StatusOr<Mapping> Map(int fd, uint64_t bytes, bool writable,
                                     const FileTrust& trust = {});
  MutableBytes bytes() const { return bytes_; }

  // Before the first use of a range within bytes(): all its pages come into this process by one
  // call, where each would take a fault of its own, which costs more than to copy the page. What
  // was touched before costs nothing. Nothing is promised: what is not there, or lies beyond the
  // first 64 MiB of the range, faults when it is used.
  void Touch(uint64_t offset, uint64_t length) const;

 private:
  void TouchBlock(uint64_t block) const;

  MutableBytes bytes_;
  bool is_writable_ = false;
  // A bit for every block that has been touched.
  std::unique_ptr<std::atomic<uint64_t>[]> touched_;
};

}  // namespace moonpool::transport
