#include "cli/output/fields.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "cli/output/terminal.h"
#include "cli/output/wrap.h"

namespace moonpool::cli {
namespace {

constexpr size_t kGap = 2;
constexpr size_t kValueMin = 8;

}  // namespace

void Fields::Add(std::string name, std::string value) {
  rows_.emplace_back(std::move(name), Printable(value));
}

std::string Fields::Render(size_t width) const {
  size_t name_width = 0;
  for (const auto& [name, value] : rows_) name_width = std::max(name_width, name.size());
  const size_t start = indent_ + name_width + kGap;
  const size_t room = width == 0 ? 0 : std::max(kValueMin, width - std::min(width, start));
  std::string out;
  for (const auto& [name, value] : rows_) {
    std::string head = std::string(indent_, ' ') + name;
    for (const std::string& line : WrapText(value, room)) {
      head.resize(start, ' ');
      absl::StrAppend(&out, head, line, "\n");
      head.clear();
    }
  }
  return out;
}

void Fields::Print(FILE* to) const {
  const std::string text = Render(TerminalColumns(to));
  std::fwrite(text.data(), 1, text.size(), to);
}

}  // namespace moonpool::cli
