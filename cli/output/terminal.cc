#include "cli/output/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

namespace moonpool::cli {

bool IsTerminal(FILE* stream) { return isatty(fileno(stream)) == 1; }

size_t TerminalColumns(FILE* stream) {
  winsize size = {};
  if (ioctl(fileno(stream), TIOCGWINSZ, &size) != 0) return 0;
  return size.ws_col;
}

}  // namespace moonpool::cli
