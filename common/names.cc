#include "common/names.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/error.h"
#include "common/status_macros.h"
#include "common/types.h"

namespace moonpool {
namespace {

constexpr char kFingerprintMark = '\x1f';  // in no name and in no label

bool IsNamespaceCharacter(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_' || c == '/' ||
         c == '-' || c == ':' || c == '@' || c == '+';
}

bool IsGraphic(char c) { return absl::ascii_isgraph(static_cast<unsigned char>(c)); }

// A code point of UTF-8 at the start of a text; no bytes where there is none.
struct CodePoint {
  uint32_t value = 0;
  size_t bytes = 0;
};

CodePoint FirstCodePoint(absl::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  if (lead < 0x80) return {lead, 1};
  const size_t bytes = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < bytes) return {};
  uint32_t value = lead & (0x7fu >> bytes);
  for (size_t i = 1; i < bytes; ++i) {
    const auto next = static_cast<unsigned char>(text[i]);
    if ((next & 0xc0) != 0x80) return {};
    value = value << 6 | (next & 0x3fu);
  }
  constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool is_surrogate = value >= 0xd800 && value <= 0xdfff;
  if (value < kLeast[bytes] || value > 0x10ffff || is_surrogate) return {};
  return {value, bytes};
}

bool IsControl(uint32_t code_point) {
  return code_point < 0x20 || (code_point >= 0x7f && code_point < 0xa0);
}

absl::Status Refused(std::string what, std::string allowed) {
  return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kBadArgument, what,
                   {.hint = std::move(allowed)});
}

// Long enough to be known again.
std::string Quoted(absl::string_view text) {
  constexpr size_t kShownBytes = 64;
  return absl::StrCat("\"", absl::CHexEscape(text.substr(0, kShownBytes)), "\"",
                      text.size() > kShownBytes ? "..." : "");
}

}  // namespace

bool IsNamespaceName(absl::string_view text) {
  return !text.empty() && text.size() <= kMaxNamespaceBytes &&
         std::all_of(text.begin(), text.end(), IsNamespaceCharacter);
}

bool IsNodeName(absl::string_view text) {
  return !text.empty() && text.size() <= kMaxLabelBytes &&
         std::all_of(text.begin(), text.end(), IsGraphic);
}

bool IsLabel(absl::string_view text) {
  if (text.size() > kMaxLabelBytes) return false;
  while (!text.empty()) {
    const CodePoint next = FirstCodePoint(text);
    if (next.bytes == 0 || IsControl(next.value)) return false;
    text.remove_prefix(next.bytes);
  }
  return true;
}

std::string JoinPartNamespace(const PartNamespace& parts) {
  if (parts.fingerprint.empty()) return std::string(parts.name);
  return absl::StrCat(parts.name, absl::string_view(&kFingerprintMark, 1), parts.fingerprint);
}

std::optional<PartNamespace> SplitPartNamespace(absl::string_view text) {
  if (text.empty()) return PartNamespace{};
  const size_t mark = text.find(kFingerprintMark);
  const PartNamespace parts{
      .name = text.substr(0, mark),
      .fingerprint = mark == text.npos ? absl::string_view() : text.substr(mark + 1)};
  const bool has_bare_mark = mark != text.npos && parts.fingerprint.empty();
  if (!IsNamespaceName(parts.name) || !IsLabel(parts.fingerprint) || has_bare_mark ||
      text.size() > kMaxNamespaceBytes) {
    return std::nullopt;
  }
  return parts;
}

absl::Status CheckNamespaceName(absl::string_view text) {
  if (IsNamespaceName(text)) return absl::OkStatus();
  return Refused(
      absl::StrCat(Quoted(text), " is no name for a namespace"),
      absl::StrCat("1 to ", kMaxNamespaceBytes, " letters, digits and any of . _ / - : @ +"));
}

absl::Status CheckPartNamespace(const PartNamespace& parts) {
  RETURN_IF_ERROR(CheckNamespaceName(parts.name));
  RETURN_IF_ERROR(CheckLabel("fingerprint", parts.fingerprint));
  if (JoinPartNamespace(parts).size() <= kMaxNamespaceBytes) return absl::OkStatus();
  return Refused(
      absl::StrCat("the name of a namespace and its fingerprint have ",
                   parts.name.size() + parts.fingerprint.size(), " bytes"),
      absl::StrCat("at most ", kMaxNamespaceBytes - 1, " together; a hash of the layout does"));
}

absl::Status CheckNodeName(absl::string_view text) {
  if (IsNodeName(text)) return absl::OkStatus();
  return Refused(absl::StrCat(Quoted(text), " is no name for a node"),
                 absl::StrCat("1 to ", kMaxLabelBytes, " printable ASCII characters, no space"));
}

absl::Status CheckLabel(absl::string_view what, absl::string_view text) {
  if (IsLabel(text)) return absl::OkStatus();
  return Refused(
      absl::StrCat(what, " ", Quoted(text), " is too long or not printable"),
      absl::StrCat("at most ", kMaxLabelBytes, " bytes of UTF-8 without control characters"));
}

}  // namespace moonpool
