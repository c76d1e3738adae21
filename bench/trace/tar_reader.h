// Reads the regular files of a ustar archive, one after the other, from an untrusted source.
//
// Layout: a 512-byte header per member (name at 0, size in octal at 124, checksum in octal at 148,
// type at 156, "ustar" at 257, prefix of the name at 345), its content padded to 512 bytes, and
// zeros at the end. Members that are not regular files are skipped, extended headers too.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "bench/trace/byte_source.h"

namespace moonpool::trace {

struct TarMember {
  std::string name;
  std::string content;
};

class TarReader {
 public:
  // `source` must outlive the reader. Longer members are an error.
  TarReader(ByteSource& source, size_t member_bytes_max)
      : source_(source), member_bytes_max_(member_bytes_max) {}

  // nullopt at the end of the archive.
  absl::StatusOr<std::optional<TarMember>> Next();

 private:
  absl::Status ReadExactly(char* out, size_t size);

  ByteSource& source_;
  const size_t member_bytes_max_;
};

}  // namespace moonpool::trace
