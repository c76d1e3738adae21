// What clients of an earlier life of this node still use of its pool: their pages of pins
// (pin_file.h), found again at the start.
//
//   // Nothing is served yet, and the earlier life has ended (its lock on the pool is ours).
//   ASSIGN_OR_RETURN(auto orphans, AdoptPinPages(pins_dir, mapped_claims));
//   for (const auto& pins : orphans) index.AttachViewer(pins.get());
//   ... the server starts with the same pins_dir, and now and then: ...
//   if (orphan->has_ended()) { index.DetachViewer(orphan.get()); drop it; }
//
// The pages are read at every question, so a view that is released is found released, and one that
// its client has opened after the earlier life's end is found, too.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "common/types.h"
#include "common/unique_fd.h"
#include "transport/target.h"

namespace moonpool::transport {

// The pins of one client of an earlier life. Thread-safe; no call blocks.
class OrphanPins final : public ViewPins {
 public:
  using Claims = absl::flat_hash_set<Generation>;
  // `file` is that of `path`, opened anew. The claims are those of all pages, which end one by one.
  OrphanPins(UniqueFd file, std::string path, std::shared_ptr<const Claims> mapped_claims)
      : file_(std::move(file)), path_(std::move(path)), mapped_claims_(std::move(mapped_claims)) {}

  // The client has not ended, and views the generation or may still be writing it.
  bool Holds(Generation generation) const override;
  // True, and for ever, once no process has the page, and so none the pool that came with it. The
  // file is removed.
  bool has_ended() const;

 private:
  const UniqueFd file_;
  const std::string path_;
  const std::shared_ptr<const Claims> mapped_claims_;
  mutable std::atomic<bool> has_ended_{false};
};

// The pages in `pins_dir` that are in use; what is left of others is removed. Whatever else is in
// the folder is passed over, and a folder that is not there has none. `mapped_claims`: generations
// that mapped writers of the earlier life had claimed and not sealed. None of the pages says whose
// they are, so each holds them all until its client has ended. Those that are still held when this
// life ends are to be among those of the next.
//
// An error, of a folder that cannot be read to its end or has more than `files_max` files: a client
// may have been missed, so none of the pool's bytes may be given to anybody. RESOURCE_EXHAUSTED/
// LIMIT_REACHED, or FAILED_PRECONDITION/BAD_ARGUMENT with the call that failed.
absl::StatusOr<std::vector<std::unique_ptr<OrphanPins>>> AdoptPinPages(
    const std::string& pins_dir, const OrphanPins::Claims& mapped_claims,
    size_t files_max = size_t{1} << 16);

}  // namespace moonpool::transport
