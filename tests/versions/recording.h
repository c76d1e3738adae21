// What the processes of a small cluster said to each other, in order: a text file with a line per
// message or piece of a byte stream.
//
//   node>master Register 0a0408...
//   client-1>node bytes 4d5001...
#pragma once

#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"

namespace moonpool::versions {

struct Line {
  std::string way;   // "node>master"
  std::string what;  // a method, or what the message is; "bytes" of a stream
  std::string bytes;
};

// Thread-safe.
class Recording {
 public:
  // Pieces of one stream that come one after the other are one.
  void Add(absl::string_view way, absl::string_view what, absl::string_view bytes);
  std::string Text() const;
  std::vector<Line> lines() const;

  // Ends the process when there is no such file or it is no recording: it lies in the repository.
  static std::vector<Line> Load(const std::string& path);

 private:
  mutable absl::Mutex mutex_;
  std::vector<Line> lines_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace moonpool::versions
