// What libprotobuf has to say.
#pragma once

namespace moonpool {

// First thing in every main() that speaks to peers. On its own, libprotobuf writes a line to
// stderr for each malformed message, from the thread that reads it: enough of them from one peer,
// and a stderr that nobody reads, and all of gRPC's threads stand still. The message is refused
// and its sender told, all the same. What ends the process is still said.
void SilenceProtobufLog();

}  // namespace moonpool
