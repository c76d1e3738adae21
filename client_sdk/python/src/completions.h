// Outcomes of batches, from the client's threads to one of Python's that polls a descriptor.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/unique_fd.h"

namespace moonpool::python {

struct Completion {
  uint64_t id = 0;
  bool is_ok = false;
  std::string error = {};          // of the first that failed; "" where none did
  std::vector<bool> results = {};  // one for each key
};

// Thread-safe; knows nothing of Python. What is in it is bounded by what is under way.
class Completions {
 public:
  Completions();
  ~Completions();
  Completions(const Completions&) = delete;
  Completions& operator=(const Completions&) = delete;

  // An eventfd: readable while there is something to take; -1 when the process has no descriptor
  // left. It is a second one of the same event, for others: whoever closes it hears of nothing
  // more, but no file that gets its number later is written into. What is open goes with this.
  int fd() const { return handed_out_; }
  void Add(Completion completion);
  // Makes it readable, as Add does.
  void Wake();
  // All there are, oldest first; the descriptor is not readable any more.
  std::vector<Completion> Take();

 private:
  const UniqueFd event_;
  const int handed_out_;
  absl::Mutex mutex_;
  std::vector<Completion> ready_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace moonpool::python
