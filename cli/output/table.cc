#include "cli/output/table.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/output/fields.h"
#include "cli/output/terminal.h"
#include "cli/output/wrap.h"
#include "common/check.h"

namespace moonpool::cli {
namespace {

constexpr size_t kGap = 2;
constexpr size_t kReadable = 20;  // a column shrinks no further

bool MayShrink(Fit fit) {
  return fit == Fit::kShrink || fit == Fit::kShrinkThenDrop || fit == Fit::kWrap;
}

bool MayDrop(Fit fit) { return fit == Fit::kDrop || fit == Fit::kShrinkThenDrop; }

size_t LineWidth(const std::vector<size_t>& widths) {
  size_t shown = 0;
  size_t total = 0;
  for (size_t width : widths) {
    if (width == 0) continue;
    total += width;
    ++shown;
  }
  return shown == 0 ? 0 : total + (shown - 1) * kGap;
}

}  // namespace

size_t DisplayWidth(absl::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;  // not a UTF-8 continuation byte
  }));
}

std::string CutMiddle(absl::string_view text, size_t width) {
  if (DisplayWidth(text) <= width) return std::string(text);
  if (width <= 1) return std::string(width, '~');
  const size_t head = (width - 1) / 2;
  const size_t tail = width - 1 - head;
  return absl::StrCat(text.substr(0, head), "…", text.substr(text.size() - tail));
}

void Table::AddRow(std::vector<std::string> cells) {
  MP_CHECK(cells.size() == columns_.size(), "one cell per column", cells.size(), columns_.size());
  for (std::string& cell : cells) cell = Printable(cell);
  rows_.push_back(std::move(cells));
}

// The widest of the columns that may shrink gives first.
void Table::Shrink(size_t width, std::vector<size_t>* widths) const {
  while (LineWidth(*widths) > width) {
    size_t widest = columns_.size();
    for (size_t i = 0; i < columns_.size(); ++i) {
      if (!MayShrink(columns_[i].fit) || (*widths)[i] <= kReadable) continue;
      if (widest == columns_.size() || (*widths)[i] > (*widths)[widest]) widest = i;
    }
    if (widest == columns_.size()) return;
    --(*widths)[widest];
  }
}

std::vector<size_t> Table::FittedWidths(size_t width) const {
  std::vector<size_t> full;
  for (size_t i = 0; i < columns_.size(); ++i) {
    size_t widest = DisplayWidth(columns_[i].title);
    for (const auto& row : rows_) widest = std::max(widest, DisplayWidth(row[i]));
    full.push_back(widest);
  }
  if (width == 0) return full;

  // Columns go, from the right, before keys become hard to read.
  std::vector<size_t> widths = full;
  Shrink(width, &widths);
  for (size_t i = columns_.size(); i-- > 0 && LineWidth(widths) > width;) {
    if (!MayDrop(columns_[i].fit)) continue;
    full[i] = 0;
    widths = full;
    Shrink(width, &widths);
  }
  return widths;
}

void Table::AppendLine(const std::vector<std::string>& cells, const std::vector<size_t>& widths,
                       std::string* out) const {
  std::string line;
  size_t gap = 0;
  for (size_t i = 0; i < cells.size(); ++i) {
    if (widths[i] == 0) continue;
    line.append(gap, ' ');
    gap = kGap;
    if (columns_[i].fit == Fit::kWrap) {
      const std::string margin(DisplayWidth(line), ' ');
      absl::StrAppend(&line, absl::StrJoin(WrapText(cells[i], widths[i]), "\n" + margin));
      continue;
    }
    const std::string cell = CutMiddle(cells[i], widths[i]);
    const std::string pad(widths[i] - DisplayWidth(cell), ' ');
    absl::StrAppend(&line, columns_[i].align == Align::kRight ? pad : "", cell,
                    columns_[i].align == Align::kLeft ? pad : "");
  }
  line.erase(line.find_last_not_of(' ') + 1);
  absl::StrAppend(out, line, "\n");
}

std::string Table::RenderParagraphs(size_t width) const {
  std::string out;
  for (const auto& row : rows_) {
    Fields fields;
    for (size_t i = 0; i < columns_.size(); ++i) {
      if (!row[i].empty()) fields.Add(columns_[i].title, row[i]);
    }
    absl::StrAppend(&out, out.empty() ? "" : "\n", fields.Render(width));
  }
  return out;
}

std::string Table::Render(size_t width) const {
  const std::vector<size_t> widths = FittedWidths(width);
  if (width > 0 && LineWidth(widths) > width && !rows_.empty()) return RenderParagraphs(width);
  std::vector<std::string> titles;
  for (const Column& column : columns_) titles.push_back(column.title);
  std::string out;
  AppendLine(titles, widths, &out);
  for (const auto& row : rows_) AppendLine(row, widths, &out);
  return out;
}

void Table::Print(FILE* to) const {
  const std::string text = Render(TerminalColumns(to));
  std::fwrite(text.data(), 1, text.size(), to);
}

}  // namespace moonpool::cli
