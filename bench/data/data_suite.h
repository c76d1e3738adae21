// The data path beside the machine's limits: gets and puts of four sizes over shared memory and
// TCP, memcpy and raw sockets moving the same bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "bench/data/traffic.h"
#include "bench/limits/memory_copy.h"
#include "bench/suite/ratios.h"
#include "bench/suite/rounds.h"
#include "moonpool/client.h"

namespace moonpool::bench {

struct DataSuiteOptions {
  std::vector<std::string> masters;
  std::string name_space = "default";
  bool with_pool = true;  // false: the limits alone
  // The master and the nodes, where they are this host's: their processor time is measured, too.
  std::vector<pid_t> servers = {};
  // Bytes of the objects that are read, per size, and of those that puts leave behind for a while
  // (at least one call of every thread).
  // Both larger than the last-level cache together.
  uint64_t read_set_bytes = uint64_t{64} << 20;
  uint64_t put_set_bytes = uint64_t{256} << 20;
};

class DataSuite {
 public:
  // Stores the objects that will be read.
  static absl::StatusOr<std::unique_ptr<DataSuite>> Prepare(DataSuiteOptions options);
  ~DataSuite();

  // Borrow the suite.
  std::vector<Case> Cases();
  static std::vector<Figure> Figures();
  // What the pool must hold for it.
  static uint64_t NeededBytes(const DataSuiteOptions& options);

 private:
  // One way to the pool. Puts have a client of their own, so that what they learn does not push the
  // locations of what is read out of the cache.
  struct Lane {
    std::string name;  // "shm"
    std::unique_ptr<Client> reader;
    std::unique_ptr<Client> writer;
  };

  explicit DataSuite(DataSuiteOptions options) : options_(std::move(options)) {}
  absl::StatusOr<std::unique_ptr<Client>> Connect(Path path, bool verify) const;
  absl::Status StoreAndLearn();
  size_t ObjectCount(size_t size) const;
  size_t PoolBuffers(Direction direction, size_t size) const;
  void AddCopies(size_t size_index, std::vector<Case>* cases) const;
  void AddSockets(size_t size_index, std::vector<Case>* cases) const;
  void AddPoolCases(size_t size_index, std::vector<Case>* cases);
  void AddSpecialCases(std::vector<Case>* cases);

  const DataSuiteOptions options_;
  std::vector<Lane> lanes_;
  std::unique_ptr<Client> unverified_;  // TCP, without checksums
  std::vector<StoredObjects> objects_;  // per size
};

}  // namespace moonpool::bench
