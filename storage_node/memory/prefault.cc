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
#include "common/status_macros.h"
#include "storage_node/memory/huge_page_maker.h"

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
    while (!ended_.load()) {
      const uint64_t begin = next_.fetch_add(kChunkBytes);
      if (begin >= memory_.size()) return;
      const uint64_t end = std::min<uint64_t>(begin + kChunkBytes, memory_.size());
      if (const absl::Status prepared = Prepare(begin, end); !prepared.ok()) return End(prepared);
      Count(end - begin);
    }
  }

  absl::StatusOr<uint64_t> Result() {
    absl::MutexLock lock(&mutex_);
    if (!failure_.ok()) return failure_;
    return huge_pages_.bytes_made();
  }

 private:
  // Huge pages first: what has small ones would have to be copied.
  absl::Status Prepare(uint64_t begin, uint64_t end) {
    if (options_.should_stop()) {
      return absl::CancelledError("stopped while the pool's memory was prepared");
    }
    const absl::Span<std::byte> chunk = memory_.subspan(begin, end - begin);
    if (options_.wants_huge_pages) huge_pages_.Make(chunk);
    RETURN_IF_ERROR(options_.reserve(begin, end));
    return Populate(chunk);
  }

  absl::Status Populate(absl::Span<std::byte> chunk) const {
    int error = 0;
    do {
      error = madvise(chunk.data(), chunk.size(), MADV_POPULATE_WRITE) == 0 ? 0 : errno;
    } while (error == EINTR || error == EAGAIN);
    if (error != 0 && error != EINVAL) {
      return MakeError(absl::StatusCode::kResourceExhausted, ErrorReason::kNoSpace,
                       absl::StrCat("madvise(MADV_POPULATE_WRITE) for ", memory_.size(), " bytes: ",
                                    std::generic_category().message(error), " (errno ", error, ")"),
                       {.hint = "the machine has not that much memory to give: lower --dram, or "
                                "stop what else uses it"});
    }
    if (error == 0) return absl::OkStatus();
    // A kernel without it: touch each page. Nobody else uses the memory yet.
    for (uint64_t at = 0; at < chunk.size(); at += options_.page_bytes) {
      volatile std::byte* const byte = &chunk[at];
      *byte = *byte;
    }
    return absl::OkStatus();
  }

  void End(const absl::Status& failure) {
    absl::MutexLock lock(&mutex_);
    if (failure_.ok()) failure_ = failure;
    ended_ = true;
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
  std::atomic<bool> ended_{false};
  HugePageMaker huge_pages_;
  absl::Mutex mutex_;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  uint64_t done_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace

absl::StatusOr<uint64_t> Prefault(absl::Span<std::byte> memory, const PrefaultOptions& options) {
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
