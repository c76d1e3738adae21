// A page of pins that outlives the node: a file in a folder of the node's. Where the pool outlives
// it too, the node's next life finds there who still looks at what (orphan_pins.h).
//
// The client gets an open file of its own, with a shared lock (flock) on it. The kernel keeps that
// lock while any process has this open file as a descriptor or mapped, and no longer: so the next
// life can tell a page that is in use from a leftover, however its node and its client have ended.
//
// No named file can be sealed, and the client may write it, so it may cut it short. That is why the
// node never maps it: it reads the slots with pread. At half a microsecond per question that is two
// hundred times what a mapped page costs, and the reason why a pool that ends with its node has its
// pins in a memfd.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/unique_fd.h"
#include "transport/shm/pin_page.h"

namespace moonpool::transport {

class PinFile final : public PinPage {
 public:
  // UNAVAILABLE/LIMIT_REACHED: no room, no descriptor.
  static absl::StatusOr<std::unique_ptr<PinPage>> Create(const std::string& folder, uint32_t slots);
  // Removes the file, unless it is left to the next life.
  ~PinFile() override;

  int fd() const override { return clients_.get(); }
  bool Holds(Generation generation) const override;
  void Close() override;
  void LeaveToNextLife() override { is_left_ = true; }

 private:
  PinFile(std::string path, uint32_t slots) : path_(std::move(path)), slots_(slots) {}
  absl::Status Open();

  const std::string path_;
  const uint32_t slots_;
  UniqueFd own_;
  UniqueFd clients_;  // the lock is this open file's
  bool is_left_ = false;
};

// Makes the folder if there is none. INVALID_ARGUMENT unless it is on tmpfs and of this user's, and
// nobody else may write it.
absl::Status PreparePinsFolder(const std::string& folder);

bool IsPinFileName(absl::string_view name);

// Whether one of the first `slots_max` slots of the page behind `fd` holds the generation. A file
// that was cut short holds what is left in it. True when it cannot be read.
bool PinFileHolds(int fd, uint32_t slots_max, Generation generation);

}  // namespace moonpool::transport
