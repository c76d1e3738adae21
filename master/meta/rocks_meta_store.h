// A MetaStore in a folder of the master's own disk, kept by RocksDB: for a master that is alone.
//
//   ASSIGN_OR_RETURN(auto store, RocksMetaStore::Open({.dir = dir}, {clock, logger}));
//
// Writes that arrive while the disk is busy become durable together, with one sync. A write that
// fails, on a full disk say, leaves the store as it was, and later ones are tried again.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/clock.h"
#include "common/log.h"
#include "master/meta/meta_store.h"

namespace moonpool::master {

struct RocksMetaStoreOptions {
  std::string dir;          // made when there is none; nothing else may be in it
  size_t writes_max = 256;  // under way at the same time
};

// Its own thread, "meta", is the only one that writes to disk and calls `done`s, those of writes
// aside that are refused at once.
class RocksMetaStore final : public MetaStore {
 public:
  struct Dependencies {  // borrowed
    const Clock& clock;
    const Logger& logger;
  };
  // Blocks on the disk. FAILED_PRECONDITION: another process has the store
  // open. DATA_LOSS: it is broken; nothing was changed. RESOURCE_EXHAUSTED, UNAVAILABLE: the disk.
  // INVALID_ARGUMENT: `dir` can be no folder, or has other things in it.
  static absl::StatusOr<std::unique_ptr<RocksMetaStore>> Open(const RocksMetaStoreOptions& options,
                                                              const Dependencies& with);
  // Carries out the writes that were taken.
  ~RocksMetaStore() override;

  absl::StatusOr<std::vector<MetaRecord>> Load(absl::Time deadline) override;
  void Write(MetaBatch batch, WriteDone done) override;

 private:
  class Impl;
  explicit RocksMetaStore(std::unique_ptr<Impl> impl);

  const std::unique_ptr<Impl> impl_;
};

}  // namespace moonpool::master
