#include "transport/tcp/resolve.h"

#include <netdb.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/error.h"
#include "common/status_macros.h"
#include "transport/waiter.h"

namespace moonpool::transport {
namespace {

constexpr int kLookupsMax = 16;
std::atomic<int> lookups_running{0};

// Shared with the thread, which may outlive the call.
struct Lookup {
  std::string host;
  std::string port;
  UniqueFd done{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  std::atomic<bool> is_done{false};
  int error = 0;
  SocketAddress address;

  void Run() {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    error = getaddrinfo(host.c_str(), port.c_str(), &hints, &found);
    if (error == 0) {
      std::memcpy(&address.storage, found->ai_addr, found->ai_addrlen);
      address.length = found->ai_addrlen;
      freeaddrinfo(found);
    }
    is_done.store(true);
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = write(done.get(), &one, sizeof(one));
    lookups_running.fetch_sub(1);
  }
};

absl::Status Unknown(absl::string_view address, absl::string_view why) {
  return MakeError(absl::StatusCode::kUnavailable, ErrorReason::kPeerUnreachable,
                   absl::StrCat("look up ", address, ": ", why));
}

}  // namespace

absl::StatusOr<SocketAddress> Resolve(absl::string_view address, const CallContext& context,
                                      const Clock& clock) {
  absl::StatusOr<SocketAddress> numeric = ParseNumericAddress(address);
  const size_t colon = address.rfind(':');
  uint32_t port = 0;
  if (numeric.ok() || colon == absl::string_view::npos || colon == 0 ||
      !absl::SimpleAtoi(address.substr(colon + 1), &port) || port > 65535) {
    return numeric;
  }
  auto lookup = std::make_shared<Lookup>();
  lookup->host = std::string(address.substr(0, colon));
  lookup->port = std::string(address.substr(colon + 1));
  if (!lookup->done.valid()) return SocketError("eventfd", errno);
  if (lookups_running.fetch_add(1) >= kLookupsMax) {
    lookups_running.fetch_sub(1);
    return Unknown(address, "too many look-ups are waiting for the name server");
  }
  std::thread([lookup] { lookup->Run(); }).detach();
  while (!lookup->is_done.load()) {
    RETURN_IF_ERROR(context.Check(clock));
    std::vector<pollfd> waits = {{lookup->done.get(), POLLIN, 0}};
    PollOnce(&waits, context, clock);
  }
  if (lookup->error != 0) return Unknown(address, gai_strerror(lookup->error));
  return lookup->address;
}

}  // namespace moonpool::transport
