// How far long work has come, on stderr: a bar that redraws itself on a terminal, elsewhere a plain
// line every few seconds, and nothing at all for work that ends before the first one.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/clock.h"

namespace moonpool::cli {

// Thread-compatible.
class Progress {
 public:
  Progress(std::string title, uint64_t total, const Clock& clock, FILE* to = stderr);
  ~Progress() { Finish(); }

  // Cheap: draws only when the last drawing is old enough. `note` stands behind the numbers.
  void Update(uint64_t done, absl::string_view note);
  // Clears the bar, so that what is printed next starts on a clean line. Idempotent.
  void Finish();

 private:
  void DrawBar(uint64_t done, absl::string_view note);
  void WriteLine(uint64_t done, absl::string_view note);

  const std::string title_;
  const uint64_t total_;
  const Clock& clock_;
  FILE* const to_;
  const bool is_terminal_;
  const absl::Time start_;
  absl::Time next_draw_;
  bool bar_shown_ = false;
};

}  // namespace moonpool::cli
