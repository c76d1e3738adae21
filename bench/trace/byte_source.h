// Bytes that come one after the other: a string, a file, an xz stream.
#pragma once

#include <cstddef>
#include <cstdio>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace moonpool::trace {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Up to `size` bytes; fewer only at the end.
  virtual absl::StatusOr<size_t> Read(char* out, size_t size) = 0;
};

class StringSource : public ByteSource {
 public:
  explicit StringSource(absl::string_view text) : rest_(text) {}
  absl::StatusOr<size_t> Read(char* out, size_t size) override {
    const size_t count = rest_.copy(out, size);
    rest_.remove_prefix(count);
    return count;
  }

 private:
  absl::string_view rest_;
};

// NotFound or Unavailable when the file cannot be opened; the caller adds the path.
absl::StatusOr<std::unique_ptr<ByteSource>> OpenFile(const std::string& path);

// Decompresses `input`. Memory is bounded; damaged input is InvalidArgument.
absl::StatusOr<std::unique_ptr<ByteSource>> OpenXz(std::unique_ptr<ByteSource> input);

// The whole source; InvalidArgument when it is longer than max_bytes.
absl::StatusOr<std::string> ReadAll(ByteSource& source, size_t max_bytes);

}  // namespace moonpool::trace
