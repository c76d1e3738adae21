#include "transport/shm/fork_epoch.h"

#include <pthread.h>

#include <atomic>

namespace moonpool::transport {
namespace {

// The one variable that fork handlers can reach; written in a child before it runs anything else.
std::atomic<uint64_t> epoch{0};

void InChild() { epoch.fetch_add(1, std::memory_order_relaxed); }

}  // namespace

uint64_t ForkEpoch() {
  [[maybe_unused]] static const int registered = pthread_atfork(nullptr, nullptr, InChild);
  return epoch.load(std::memory_order_relaxed);
}

}  // namespace moonpool::transport
