#include "bench/trace/tar_reader.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace moonpool::trace {
namespace {

constexpr size_t kBlock = 512;
using Header = std::array<char, kBlock>;

absl::string_view Field(const Header& header, size_t offset, size_t size) {
  const absl::string_view field(header.data() + offset, size);
  return field.substr(0, field.find('\0'));
}

// Octal digits, blanks around them; nullopt for anything else (base-256 numbers are not needed).
std::optional<uint64_t> Octal(absl::string_view field) {
  uint64_t value = 0;
  bool any = false;
  for (const char c : field) {
    if (c == ' ') continue;
    if (c < '0' || c > '7') return std::nullopt;
    value = value * 8 + static_cast<uint64_t>(c - '0');
    any = true;
  }
  return any ? std::optional(value) : std::nullopt;
}

bool ChecksumFits(const Header& header) {
  // The sum of all bytes, with the checksum itself taken as blanks.
  Header copy = header;
  std::fill_n(copy.begin() + 148, 8, ' ');
  const uint64_t sum =
      std::accumulate(copy.begin(), copy.end(), uint64_t{0},
                      [](uint64_t total, char c) { return total + static_cast<unsigned char>(c); });
  return Octal(Field(header, 148, 8)) == sum;
}

std::string NameOf(const Header& header) {
  const absl::string_view prefix = Field(header, 345, 155);
  return absl::StrCat(prefix, prefix.empty() ? "" : "/", Field(header, 0, 100));
}

}  // namespace

absl::Status TarReader::ReadExactly(char* out, size_t size) {
  ASSIGN_OR_RETURN(const size_t count, source_.Read(out, size));
  if (count < size) return absl::InvalidArgumentError("tar archive ends too early");
  return absl::OkStatus();
}

absl::StatusOr<std::optional<TarMember>> TarReader::Next() {
  while (true) {
    Header header;
    RETURN_IF_ERROR(ReadExactly(header.data(), header.size()));
    if (std::all_of(header.begin(), header.end(), [](char c) { return c == '\0'; })) {
      return std::nullopt;
    }
    if (Field(header, 257, 5) != "ustar" || !ChecksumFits(header)) {
      return absl::InvalidArgumentError("not a ustar header, or a damaged one");
    }
    const std::optional<uint64_t> size = Octal(Field(header, 124, 12));
    if (!size || *size > member_bytes_max_) {
      return absl::InvalidArgumentError(
          absl::StrCat("tar member ", NameOf(header), " is larger than ", member_bytes_max_));
    }
    TarMember member = {.name = NameOf(header), .content = std::string(*size, '\0')};
    RETURN_IF_ERROR(ReadExactly(member.content.data(), member.content.size()));
    std::array<char, kBlock> padding;
    RETURN_IF_ERROR(ReadExactly(padding.data(), (kBlock - *size % kBlock) % kBlock));
    const char type = header[156];
    if (type == '0' || type == '\0') return member;
  }
}

}  // namespace moonpool::trace
