#include "bench/limits/raw_sockets.h"

#include <atomic>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "bench/limits/loopback.h"
#include "bench/measure/stopwatch.h"
#include "common/status_macros.h"

namespace moonpool::bench {
namespace {

constexpr size_t kSmallBytes = 64;  // of a request without payload, or an answer without one
constexpr absl::Duration kWarmUp = absl::Milliseconds(20);

// The buffers of one side, in turn.
class Buffers {
 public:
  Buffers(size_t size, size_t many) : size_(size), many_(many), bytes_(new std::byte[size * many]) {
    std::memset(bytes_.get(), 1, size * many);
  }
  std::byte* Next() { return bytes_.get() + (next_++ % many_) * size_; }

 private:
  const size_t size_;
  const size_t many_;
  const std::unique_ptr<std::byte[]> bytes_;
  size_t next_ = 0;
};

absl::StatusOr<LoopbackSocket> Connect(const RawSocketOptions& options) {
  return options.socket == RawSocket::kUnix ? LoopbackSocket::ConnectUnix()
                                            : LoopbackSocket::Connect(options.congestion_control);
}

struct Stream {
  Stream(LoopbackSocket connected, const RawSocketOptions& options)
      : socket(std::move(connected)),
        pool(options.size, std::max<size_t>(options.many / options.sockets, 1)),
        local(options.size, std::max<size_t>(options.batch / options.sockets, 1)) {}
  LoopbackSocket socket;
  Buffers pool;
  Buffers local;
};

}  // namespace

absl::StatusOr<double> RawBulk(const RawSocketOptions& options, absl::Duration time) {
  std::vector<std::unique_ptr<Stream>> streams;
  for (size_t i = 0; i < options.sockets; ++i) {
    ASSIGN_OR_RETURN(LoopbackSocket socket, Connect(options));
    streams.push_back(std::make_unique<Stream>(std::move(socket), options));
  }
  std::atomic<uint64_t> received = 0;
  std::vector<std::thread> threads;
  const bool is_get = options.direction == Direction::kGet;
  for (auto& stream : streams) {
    threads.emplace_back([&options, s = stream.get(), is_get] {
      const int socket = is_get ? s->socket.server() : s->socket.client();
      while (SendAll(socket, is_get ? s->pool.Next() : s->local.Next(), options.size)) {
      }
    });
    threads.emplace_back([&options, &received, s = stream.get(), is_get] {
      const int socket = is_get ? s->socket.client() : s->socket.server();
      while (ReceiveAll(socket, is_get ? s->local.Next() : s->pool.Next(), options.size)) {
        received.fetch_add(options.size, std::memory_order_relaxed);
      }
    });
  }
  std::this_thread::sleep_for(absl::ToChronoNanoseconds(kWarmUp));
  const uint64_t before = received.load();
  const Stopwatch watch;
  std::this_thread::sleep_for(absl::ToChronoNanoseconds(time));
  const double rate = GigabytesPer(received.load() - before, watch.elapsed());
  for (auto& stream : streams) stream->socket.Shutdown();
  for (std::thread& thread : threads) thread.join();
  return rate;
}

absl::StatusOr<LatencyHistogram> RawRequests(const RawSocketOptions& options, absl::Duration time) {
  ASSIGN_OR_RETURN(LoopbackSocket socket, Connect(options));
  const bool is_get = options.direction == Direction::kGet;
  const size_t there = is_get ? kSmallBytes : options.size;
  const size_t back = is_get ? options.size : kSmallBytes;
  Buffers pool(options.size, options.many);
  std::thread server([&] {
    std::vector<std::byte> small(kSmallBytes);
    while (ReceiveAll(socket.server(), is_get ? small.data() : pool.Next(), there) &&
           SendAll(socket.server(), is_get ? pool.Next() : small.data(), back)) {
    }
  });
  std::vector<std::byte> request(there);
  std::vector<std::byte> answer(back);
  LatencyHistogram latencies;
  const Stopwatch total;
  while (total.elapsed() < time) {
    const Stopwatch watch;
    if (!SendAll(socket.client(), request.data(), there) ||
        !ReceiveAll(socket.client(), answer.data(), back)) {
      break;
    }
    latencies.Add(watch.elapsed());
  }
  socket.Shutdown();
  server.join();
  return latencies;
}

}  // namespace moonpool::bench
