// What Abseil's mutexes check of themselves, in this whole process.
#pragma once

namespace moonpool {

// In a release build: no search for deadlocks at each lock, as in any Abseil that is built for
// release. Debian's is not, and has for it a table, and a lock, that all threads share. For main
// programs, and for modules that nobody shares Abseil with; a library leaves it to its program.
void KeepMutexChecksForDebugBuilds();

}  // namespace moonpool
