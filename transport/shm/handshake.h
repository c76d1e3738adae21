// How a client gets the memory of a node: HELLO with kHelloMapping, answered by HELLO_OK together
// with descriptors (SCM_RIGHTS), in this order:
//
//   one per segment of the answer, read-only; the page of pins (pin_page.h); and, when
//   kHelloMappedWriter is granted, one per segment once more, writable.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "common/clock.h"
#include "transport/frame.h"
#include "transport/stream/connect.h"
#include "transport/stream/socket.h"

namespace moonpool::transport {

struct ReceivedMemory {
  HelloAnswer answer;
  std::vector<UniqueFd> read_only;  // per segment
  std::vector<UniqueFd> writable;   // per segment, or none
  UniqueFd pins;
};

// Sends the HELLO and waits for the answer. `fd` is connected.
absl::StatusOr<ReceivedMemory> ReceiveMemory(int fd, const HelloRequest& hello,
                                             const ConnectDeadline& deadline, const Clock& clock);

}  // namespace moonpool::transport
