#include "cli/output/wrap.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_format.h"

namespace moonpool::cli {

std::string Printable(absl::string_view text) {
  std::string printable;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (absl::ascii_isprint(byte)) {
      printable += c;
    } else {
      absl::StrAppendFormat(&printable, "\\x%02x", byte);
    }
  }
  return printable;
}

std::vector<std::string> WrapText(absl::string_view text, size_t width) {
  std::vector<std::string> lines;
  while (width > 0 && text.size() > width) {
    // A space just behind the line is a good place, too.
    const size_t space = text.substr(0, width + 1).rfind(' ');
    const bool at_space = space != absl::string_view::npos && space > 0;
    lines.emplace_back(text.substr(0, at_space ? space : width));
    text.remove_prefix(at_space ? space + 1 : width);
  }
  lines.emplace_back(text);
  return lines;
}

}  // namespace moonpool::cli
