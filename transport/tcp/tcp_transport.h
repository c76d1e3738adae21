// The client's side over TCP: several streams per channel, driven by the caller (and, of large
// batches, by threads of the transport's own, where it may have some).
//
//   auto tcp = NewTcpTransport({}, clock);
//   ASSIGN_OR_RETURN(auto channel, tcp->Connect(peer, context));
//
// READ answers are received straight into the caller's buffers and hashed chunk by chunk while the
// chunk is in cache; WRITE payloads are hashed chunk by chunk right before they are sent, and the
// SEAL travels behind the payload without waiting, so that a put costs one round trip.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "common/clock.h"
#include "transport/channel.h"

namespace moonpool::transport {

struct TcpClientOptions {
  // Streams of one channel. The first is connected at once, the others when a batch is large
  // enough to gain from them (the ones before have more than 256 KiB outstanding).
  size_t streams = 2;
  // Threads of the transport that drive streams of large batches beside those who use channels.
  size_t driver_threads = 0;
  // A stream with less outstanding is done before another thread has woken up and helped.
  uint64_t lent_bytes_min = 2u << 20;
  absl::Duration connect_timeout = absl::Milliseconds(800);
  // Per stream; Submit answers RESOURCE_EXHAUSTED beyond. One op larger than the bytes is taken
  // when nothing else is outstanding.
  size_t outstanding_ops_max = 1024;
  size_t outstanding_bytes_max = 256u << 20;
  // Received by one Progress of a stream, give or take a receive (256 KiB). Less for who has to
  // look at something else in between.
  size_t progress_bytes = 4u << 20;
  // For what the client sends. Empty: the system's default, but reno towards the same host.
  std::string congestion_control = {};
  // 0: the kernel tunes them by itself.
  size_t send_buffer_bytes = 0;
  size_t receive_buffer_bytes = 0;
  // Tells clients apart in a node's logs; 0 is allowed.
  uint64_t client_id = 0;
};

// Lives longer than its channels. Borrows clock. Host names in PeerAddress::tcp_address are
// resolved on a helper thread within the deadline; numeric addresses cost none.
std::unique_ptr<Transport> NewTcpTransport(TcpClientOptions options, const Clock& clock);

}  // namespace moonpool::transport
