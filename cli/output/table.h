// Tables for people: columns as wide as their content, fitted to the terminal.
//
//   Table table({{"name"}, {"used", Align::kRight}, {"address", Align::kLeft, Fit::kShrink}});
//   table.AddRow({"node-0", "1.5 GiB", "127.0.0.1:41873"});
//   table.Print(stdout);
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace moonpool::cli {

enum class Align { kLeft, kRight };

// What happens to a column when the terminal is too narrow: it stays, its cells are cut in the
// middle (the ends of keys and addresses tell more than their middle), it is left out, it is cut
// first and left out then, or (the last column only) its sentences go on in lines beneath. When all
// that is not enough, every row becomes a paragraph with a line per column.
enum class Fit { kKeep, kShrink, kDrop, kShrinkThenDrop, kWrap };

struct Column {
  std::string title;
  Align align = Align::kLeft;
  Fit fit = Fit::kKeep;
};

class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  // One cell per column; what is not printable ASCII is shown as \xHH.
  void AddRow(std::vector<std::string> cells);
  bool empty() const { return rows_.empty(); }

  // Lines of at most `width` characters; 0 = no limit. Without rows: the header alone.
  std::string Render(size_t width) const;
  void Print(FILE* to) const;

 private:
  std::vector<size_t> FittedWidths(size_t width) const;
  void Shrink(size_t width, std::vector<size_t>* widths) const;
  std::string RenderParagraphs(size_t width) const;
  void AppendLine(const std::vector<std::string>& cells, const std::vector<size_t>& widths,
                  std::string* out) const;

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

// Characters that `text` takes on a terminal (UTF-8, one column each).
size_t DisplayWidth(absl::string_view text);

// At most `width` characters, an ellipsis in the middle of what was longer. ASCII only.
std::string CutMiddle(absl::string_view text, size_t width);

}  // namespace moonpool::cli
