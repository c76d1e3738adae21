// What is at the other end of an output stream.
#pragma once

#include <cstdio>

namespace moonpool::cli {

bool IsTerminal(FILE* stream);

// Characters per line; 0 when the stream is no terminal (then nothing is cut).
size_t TerminalColumns(FILE* stream);

}  // namespace moonpool::cli
