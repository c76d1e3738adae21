// What must outlive the master, behind one interface: a small ordered map of keys to values, kept
// by RocksDB on the master's own disk or by etcd. It knows nothing of what the records mean; that
// is records.h.
//
//   ASSIGN_OR_RETURN(std::vector<MetaRecord> records, store->Load(deadline));
//   store->Write({{.key = "term", .value = bytes}}, [](absl::Status status) { ... });
//
// Thread-safe. Load comes before the first Write. The destructor brings what was begun to an end:
// when it returns, every `done` has been called.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace moonpool::master {

struct MetaRecord {
  std::string key;
  std::string value;
  bool operator==(const MetaRecord&) const = default;
};

struct MetaChange {
  std::string key;
  std::optional<std::string> value;  // nullopt: deleted
  bool operator==(const MetaChange&) const = default;
};
// Of several changes of one key the last holds.
using MetaBatch = std::vector<MetaChange>;

class MetaStore {
 public:
  using WriteDone = absl::AnyInvocable<void(absl::Status) &&>;

  virtual ~MetaStore() = default;
  // Everything, in order of key. Blocks, at most until the deadline, on the line of the clock that
  // the store was given: UNAVAILABLE or DEADLINE_EXCEEDED. DATA_LOSS when what is stored cannot be
  // read: never less than all of it.
  virtual absl::StatusOr<std::vector<MetaRecord>> Load(absl::Time deadline) = 0;
  // Atomic; does not wait for I/O. `done` is called once, on any thread, perhaps before Write
  // returns, and in the order of the writes (a write that is refused at once aside): with OK when
  // the batch is durable. FAILED_PRECONDITION/STALE_TERM: another master has taken over; nothing
  // was written and nothing ever will be. RESOURCE_EXHAUSTED/LIMIT_REACHED: too many writes are
  // under way; nothing was written. All else says why, and leaves open whether it was written: to
  // write the same again is safe.
  virtual void Write(MetaBatch batch, WriteDone done) = 0;
};

}  // namespace moonpool::master
