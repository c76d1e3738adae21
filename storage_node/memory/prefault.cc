#include "storage_node/memory/prefault.h"

#include <pthread.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "common/error.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23  // Linux 5.14; Debian 12's glibc headers do not have it
#endif

namespace moonpool::storage_node {
namespace {

constexpr uint64_t kChunkBytes = uint64_t{64} << 20;

class Job {
 public:
  Job(absl::Span<std::byte> memory, const PrefaultOptions& options)
      : memory_(memory), options_(options) {}

  // The work of one thread: chunk after chunk until there is none.
  void Work() {
    while (error_.load() == 0 && !stopped_.load()) {
      const uint64_t begin = next_.fetch_add(kChunkBytes);
      if (begin >= memory_.size()) return;
      const uint64_t bytes = std::min(kChunkBytes, memory_.size() - begin);
      if (options_.should_stop()) {
        stopped_ = true;
        return;
      }
      if (const int error = Populate(memory_.data() + begin, bytes); error != 0) {
        error_ = error;
        return;
      }
      Count(bytes);
    }
  }

  absl::Status Result() const {
    if (const int error = error_.load(); error != 0) {
      return MakeError(absl::StatusCode::kResourceExhausted, ErrorReason::kNoSpace,
                       absl::StrCat("madvise(MADV_POPULATE_WRITE) for ", memory_.size(), " bytes: ",
                                    std::generic_category().message(error), " (errno ", error, ")"),
                       {.hint = "the machine has not that much memory to give: lower --dram, or "
                                "stop what else uses it"});
    }
    if (stopped_) return absl::CancelledError("stopped while the pool's memory was prepared");
    return absl::OkStatus();
  }

 private:
  // 0 or errno.
  int Populate(std::byte* begin, uint64_t bytes) const {
    int error = 0;
    do {
      error = madvise(begin, bytes, MADV_POPULATE_WRITE) == 0 ? 0 : errno;
    } while (error == EINTR || error == EAGAIN);
    if (error != EINVAL) return error;
    // A kernel without it: touch each page. Nobody else uses the memory yet.
    for (uint64_t at = 0; at < bytes; at += options_.page_bytes) {
      volatile std::byte* const byte = begin + at;
      *byte = *byte;
    }
    return 0;
  }

  void Count(uint64_t bytes) {
    absl::MutexLock lock(&mutex_);
    const uint64_t tenth = std::max<uint64_t>(memory_.size() / 10, 1);
    const uint64_t before = done_ / tenth;
    done_ += bytes;
    if (done_ / tenth != before) options_.on_progress(done_);
  }

  const absl::Span<std::byte> memory_;
  const PrefaultOptions& options_;
  std::atomic<uint64_t> next_{0};
  std::atomic<int> error_{0};
  std::atomic<bool> stopped_{false};
  absl::Mutex mutex_;
  uint64_t done_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace

absl::Status Prefault(absl::Span<std::byte> memory, const PrefaultOptions& options) {
  Job job(memory, options);
  std::vector<std::thread> threads;
  for (int i = 0; i < options.threads; ++i) {
    threads.emplace_back([&job, i] {
      pthread_setname_np(pthread_self(), absl::StrCat("prefault-", i).c_str());
      job.Work();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return job.Result();
}

}  // namespace moonpool::storage_node
