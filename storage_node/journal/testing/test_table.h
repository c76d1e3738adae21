// A record table in plain memory, which a test may copy, spoil, and open again.
//
//   TestTable table;
//   RecordTable first = table.Create().value();
//   ... first.Append(...) ...
//   RecordTable next = table.Open().value();        // as after a kill -9
#pragma once

#include <cstring>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage_node/journal/record_table.h"

namespace moonpool::storage_node {

class TestTable {
 public:
  explicit TestTable(size_t cells = 4096, size_t cells_per_step = 16)
      : memory_(std::make_unique<Cell[]>(cells)),
        bytes_(cells * kCellBytes),
        step_(cells_per_step * kCellBytes) {}

  absl::StatusOr<RecordTable> Create(Incarnation incarnation = Incarnation{1}) {
    return RecordTable::Create(memory(), identity, incarnation);
  }
  absl::StatusOr<RecordTable> Open() { return RecordTable::Open(memory(), identity); }

  // Outlived by this object.
  TableMemory memory() {
    return {.bytes = {data(), bytes_},
            .ready_bytes = ready_,
            .make_ready = [this](size_t bytes) -> absl::StatusOr<size_t> {
              if (is_full) return absl::ResourceExhaustedError("no room");
              ready_ = std::min(bytes_, (bytes + step_ - 1) / step_ * step_);
              return ready_;
            }};
  }

  std::byte* data() { return memory_.get()->bytes; }
  size_t ready_bytes() const { return ready_; }
  std::vector<std::byte> Image() { return {data(), data() + ready_}; }
  // Of the same table, perhaps at a time when less was ready.
  void Restore(const std::vector<std::byte>& image) {
    std::memset(data(), 0, bytes_);
    std::memcpy(data(), image.data(), image.size());
  }

  TableIdentity identity{.boot = 11, .file = 22, .segments = 33};
  bool is_full = false;

 private:
  struct alignas(kCellBytes) Cell {
    std::byte bytes[kCellBytes] = {};
  };
  std::unique_ptr<Cell[]> memory_;
  size_t bytes_;
  size_t step_;
  size_t ready_ = 0;
};

}  // namespace moonpool::storage_node
