#include "cli/output/key_text.h"

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/error.h"

namespace moonpool::cli {

std::string KeyToText(absl::string_view key) {
  std::string text;
  for (const char c : key) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\\') {
      text += "\\\\";
    } else if (absl::ascii_isprint(byte)) {
      text += c;
    } else {
      absl::StrAppendFormat(&text, "\\x%02x", byte);
    }
  }
  return text;
}

absl::StatusOr<std::string> KeyFromText(absl::string_view text) {
  std::string key;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\') {
      key += text[i];
    } else if (text.substr(i, 2) == "\\\\") {
      key += '\\';
      i += 1;
    } else if (text.substr(i, 2) == "\\x" && i + 4 <= text.size() &&
               absl::ascii_isxdigit(static_cast<unsigned char>(text[i + 2])) &&
               absl::ascii_isxdigit(static_cast<unsigned char>(text[i + 3]))) {
      key += absl::HexStringToBytes(text.substr(i + 2, 2));
      i += 3;
    } else {
      return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kBadArgument,
                       absl::StrCat("bad escape at \"", text.substr(i, 4), "\" in key ", text),
                       {.hint = "write a backslash as \\\\ and any byte as \\xHH"});
    }
  }
  return key;
}

}  // namespace moonpool::cli
