// A connection without a network, and a look at the descriptors of this process.
#pragma once

#include <sys/eventfd.h>
#include <sys/socket.h>

#include <array>

#include "common/check.h"
#include "common/unique_fd.h"
#include "transport/ops.h"
#include "transport/stream/socket.h"

namespace moonpool::transport {

// Neither end blocks.
struct Sockets {
  Sockets() {
    std::array<int, 2> fds;
    MP_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds.data()) == 0, "no sockets");
    fed = UniqueFd(fds[0]);
    feeder = UniqueFd(fds[1]);
  }
  // As much as the socket takes.
  void Say(ConstBytes bytes, absl::Span<const int> descriptors = {}) {
    while (!bytes.empty()) {
      const iovec vector{const_cast<std::byte*>(bytes.data()), bytes.size()};
      const absl::StatusOr<size_t> sent =
          Send(feeder.get(), absl::MakeConstSpan(&vector, 1), descriptors);
      if (!sent.ok() || *sent == 0) return;
      bytes.remove_prefix(*sent);
      descriptors = {};
    }
  }
  // All there is to say.
  void Feed(ConstBytes bytes) {
    Say(bytes);
    shutdown(feeder.get(), SHUT_WR);
  }
  UniqueFd fed;
  UniqueFd feeder;
};

// The lowest number that is free: the same before and after, unless a descriptor was leaked.
inline int NextDescriptor() { return UniqueFd(eventfd(0, 0)).get(); }

}  // namespace moonpool::transport
