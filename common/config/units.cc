#include "common/config/units.h"

#include <cmath>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace moonpool {
namespace {

struct Unit {
  absl::string_view name;
  uint64_t bytes;
};

constexpr Unit kUnits[] = {
    {"", 1},
    {"B", 1},
    {"KiB", kKiB},
    {"MiB", kMiB},
    {"GiB", kGiB},
    {"TiB", kTiB},
    {"kB", 1000},
    {"KB", 1000},
    {"MB", 1000'000},
    {"GB", 1000'000'000},
    {"TB", 1000'000'000'000},
};

size_t NumberLength(absl::string_view text) {
  size_t length = 0;
  while (length < text.size() &&
         (absl::ascii_isdigit(static_cast<unsigned char>(text[length])) || text[length] == '.')) {
    ++length;
  }
  return length;
}

// Whole numbers stay exact up to 2^64; only a fraction goes through a double.
absl::StatusOr<uint64_t> Scale(absl::string_view number, uint64_t unit, absl::string_view text) {
  const auto too_large = absl::InvalidArgumentError(absl::StrCat("\"", text, "\" is too large"));
  uint64_t whole = 0;
  if (absl::SimpleAtoi(number, &whole)) {
    uint64_t bytes = 0;
    if (__builtin_mul_overflow(whole, unit, &bytes)) return too_large;
    return bytes;
  }
  double value = 0;
  if (!absl::StrContains(number, '.') || !absl::SimpleAtod(number, &value)) return too_large;
  const double bytes = value * static_cast<double>(unit);
  if (!(bytes < 9.2e18)) return too_large;
  if (bytes != std::floor(bytes)) {
    return absl::InvalidArgumentError(absl::StrCat("\"", text, "\" is no whole number of bytes"));
  }
  return static_cast<uint64_t>(bytes);
}

}  // namespace

absl::StatusOr<uint64_t> ParseBytes(absl::string_view text) {
  const size_t length = NumberLength(text);
  const absl::string_view number = text.substr(0, length);
  absl::string_view unit = text.substr(length);
  if (absl::StartsWith(unit, " ") && unit.size() > 1) unit.remove_prefix(1);
  if (number.empty() || number == "." || number.find('.') != number.rfind('.')) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", text, "\" is no size; write for example 256MiB"));
  }
  for (const Unit& known : kUnits) {
    if (unit == known.name) return Scale(number, known.bytes, text);
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "\"", text,
      "\" has no known unit; use B, KiB, MiB, GiB, TiB (1024) or kB, MB, GB, TB (1000)"));
}

std::string FormatBytes(uint64_t bytes) {
  constexpr Unit kExact[] = {{"TiB", kTiB}, {"GiB", kGiB}, {"MiB", kMiB}, {"KiB", kKiB}};
  for (const Unit& unit : kExact) {
    if (bytes != 0 && bytes % unit.bytes == 0) return absl::StrCat(bytes / unit.bytes, unit.name);
  }
  return absl::StrCat(bytes, "B");
}

std::string HumanBytes(uint64_t bytes) {
  constexpr Unit kRounded[] = {{"TiB", kTiB}, {"GiB", kGiB}, {"MiB", kMiB}, {"KiB", kKiB}};
  for (const Unit& unit : kRounded) {
    if (bytes < unit.bytes) continue;
    const double value = static_cast<double>(bytes) / static_cast<double>(unit.bytes);
    return absl::StrFormat("%.*f %s", value < 10 ? 1 : 0, value, unit.name);
  }
  return absl::StrCat(bytes, " B");
}

absl::StatusOr<absl::Duration> ParseDuration(absl::string_view text) {
  absl::Duration duration;
  double days = 0;
  if (absl::EndsWith(text, "d") && absl::SimpleAtod(text.substr(0, text.size() - 1), &days)) {
    duration = absl::Hours(24) * days;
  } else if (!absl::ParseDuration(std::string(text), &duration)) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", text, "\" is no duration; write for example 250ms, 2s, 1h30m or 7d"));
  }
  if (duration < absl::ZeroDuration() || duration == absl::InfiniteDuration()) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", text, "\": a duration is neither negative nor infinite"));
  }
  return duration;
}

}  // namespace moonpool
