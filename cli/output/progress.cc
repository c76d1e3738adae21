#include "cli/output/progress.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/output/table.h"
#include "cli/output/terminal.h"

namespace moonpool::cli {
namespace {

constexpr absl::Duration kRedraw = absl::Milliseconds(100);
constexpr absl::Duration kLineEvery = absl::Seconds(5);
constexpr size_t kBarCells = 24;

std::string Eta(absl::Duration elapsed, double fraction) {
  if (fraction <= 0) return "--:--";
  const int64_t left = absl::ToInt64Seconds(elapsed * (1 / fraction - 1));
  return absl::StrFormat("%02d:%02d", left / 60, left % 60);
}

}  // namespace

Progress::Progress(std::string title, uint64_t total, const Clock& clock, FILE* to)
    : title_(std::move(title)),
      total_(std::max<uint64_t>(total, 1)),
      clock_(clock),
      to_(to),
      is_terminal_(IsTerminal(to)),
      start_(clock.Now()),
      next_draw_(is_terminal_ ? start_ : start_ + kLineEvery) {}

void Progress::Update(uint64_t done, absl::string_view note) {
  const absl::Time now = clock_.Now();
  if (now < next_draw_) return;
  next_draw_ = now + (is_terminal_ ? kRedraw : kLineEvery);
  if (is_terminal_) {
    DrawBar(done, note);
  } else {
    WriteLine(done, note);
  }
}

void Progress::DrawBar(uint64_t done, absl::string_view note) {
  const double fraction = std::min(1.0, static_cast<double>(done) / static_cast<double>(total_));
  const auto filled = static_cast<size_t>(fraction * kBarCells);
  std::string bar;
  for (size_t i = 0; i < kBarCells; ++i) absl::StrAppend(&bar, i < filled ? "█" : "·");
  const std::string head =
      absl::StrFormat("%s %s %3.0f%%  %d/%d  eta %s", title_, bar, fraction * 100, done, total_,
                      Eta(clock_.Now() - start_, fraction));
  const size_t columns = TerminalColumns(to_);
  const size_t used = DisplayWidth(head) + 2;
  const size_t room = columns > used ? columns - used : 0;
  std::fprintf(to_, "\r%s  %s\x1b[K", head.c_str(), CutMiddle(note, room).c_str());
  std::fflush(to_);
  bar_shown_ = true;
}

void Progress::WriteLine(uint64_t done, absl::string_view note) {
  const std::string line = absl::StrCat(title_, ": ", done, "/", total_, "  ", note, "\n");
  std::fwrite(line.data(), 1, line.size(), to_);
  std::fflush(to_);
}

void Progress::Finish() {
  if (bar_shown_) {
    std::fputs("\r\x1b[K", to_);
    std::fflush(to_);
  }
  bar_shown_ = false;
}

}  // namespace moonpool::cli
