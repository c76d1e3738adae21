#include "storage_node/memory/segment_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/error.h"
#include "common/status_macros.h"
#include "storage_node/memory/numa_binding.h"
#include "storage_node/memory/prefault.h"
#include "storage_node/memory/system_memory.h"

namespace moonpool::storage_node {
namespace {

using absl::StatusCode;

constexpr int kPrefaultThreadsMax = 8;
constexpr uint64_t kProgressFrom = uint64_t{4} << 30;

uint64_t RoundUp(uint64_t bytes, uint64_t unit) { return (bytes + unit - 1) / unit * unit; }

absl::Status CallFailed(absl::string_view call, int error, uint64_t bytes, std::string hint) {
  return MakeError(StatusCode::kResourceExhausted, ErrorReason::kNoSpace,
                   absl::StrCat(call, " for ", bytes, " bytes: ",
                                std::generic_category().message(error), " (errno ", error, ")"),
                   {.hint = std::move(hint)});
}

// A limit of this process that the size runs into; empty: none.
std::string LimitHint(uint64_t bytes) {
  const auto exceeds = [bytes](auto resource) {
    rlimit limit{};
    return getrlimit(resource, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
           limit.rlim_cur < bytes;
  };
  if (exceeds(RLIMIT_AS)) return "raise the address space limit (ulimit -v, LimitAS=)";
  if (exceeds(RLIMIT_FSIZE)) return "raise the file size limit (ulimit -f, LimitFSIZE=)";
  return "";
}

absl::Status CheckSize(const SegmentMemoryOptions& options, const SystemMemory& system) {
  const uint64_t bytes = options.capacity_bytes;
  if (bytes == 0) {
    return MakeError(StatusCode::kInvalidArgument, ErrorReason::kBadArgument,
                     "a pool of 0 bytes holds nothing", {.hint = "raise --dram"});
  }
  if (bytes > system.total_bytes) {
    return MakeError(
        StatusCode::kInvalidArgument, ErrorReason::kBadArgument,
        absl::StrCat("a pool of ", bytes, " bytes does not fit: ",
                     system.is_limited_by_cgroup ? "this cgroup may use " : "this machine has ",
                     system.total_bytes, " bytes of memory"),
        {.hint = system.is_limited_by_cgroup ? "lower --dram, or raise the container's limit"
                                             : "lower --dram"});
  }
  // Beyond this limit the kernel sends SIGXFSZ instead of an error.
  if (const std::string hint = LimitHint(bytes); !hint.empty()) {
    return MakeError(StatusCode::kResourceExhausted, ErrorReason::kNoSpace,
                     absl::StrCat("a limit of this process is below the pool's ", bytes, " bytes"),
                     {.hint = hint});
  }
  return absl::OkStatus();
}

absl::Status NotEnoughHugePages(uint64_t needed, const SystemMemory& system) {
  if (system.huge_page_bytes == 0) {
    return MakeError(StatusCode::kResourceExhausted, ErrorReason::kNoSpace,
                     "this kernel has no huge pages", {.hint = "use --huge-pages auto or off"});
  }
  return MakeError(
      StatusCode::kResourceExhausted, ErrorReason::kNoSpace,
      absl::StrCat("the pool needs ", needed, " free huge pages of ", system.huge_page_bytes,
                   " bytes, there are ", system.free_huge_pages),
      {.hint = absl::StrCat("sysctl vm.nr_hugepages=", needed,
                            " (plus those in use), or --huge-pages auto")});
}

int PrefaultThreads(int asked) {
  if (asked > 0) return asked;
  return std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, kPrefaultThreadsMax);
}

absl::Status BindAndTouch(const SegmentMemoryOptions& options, const SegmentMemory& memory,
                          Logger& logger) {
  const absl::Span<std::byte> all(memory.base(), memory.mapped_bytes());
  if (options.numa_node >= 0) {
    ASSIGN_OR_RETURN(const bool is_bound, BindToNumaNode(all, options.numa_node));
    if (!is_bound) {
      logger.Info("pool memory is not bound: the machine has one NUMA node",
                  {{"numa_node", options.numa_node}});
    }
  }
  PrefaultOptions prefault{.threads = PrefaultThreads(options.prefault_threads),
                           .page_bytes = memory.page_bytes(),
                           .should_stop = options.should_stop};
  if (all.size() >= kProgressFrom) {
    prefault.on_progress = [&logger, &all](uint64_t done) {
      logger.Info("preparing pool memory", {{"bytes_done", done}, {"bytes", all.size()}});
    };
  }
  return Prefault(all, prefault);
}

}  // namespace

absl::StatusOr<SegmentMemory> SegmentMemory::Allocate(const SegmentMemoryOptions& options,
                                                      const Clock& clock, Logger& logger) {
  const SystemMemory system = ReadSystemMemory();
  RETURN_IF_ERROR(CheckSize(options, system));
  const absl::Time begin = clock.Now();
  const uint64_t small_page_bytes = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));

  SegmentMemory memory;
  absl::string_view pages = "small";
  if (options.huge_pages != HugePages::kOff) {
    const uint64_t unit = std::max<uint64_t>(system.huge_page_bytes, 1);
    const uint64_t needed = RoundUp(options.capacity_bytes, unit) / unit;
    absl::Status status = NotEnoughHugePages(needed, system);
    if (system.huge_page_bytes != 0 && needed <= system.free_huge_pages) {
      status = memory.Map(options, system.huge_page_bytes, MFD_HUGETLB);
      pages = "reserved huge";
    }
    if (!status.ok() && options.huge_pages == HugePages::kOn) return status;
  }
  if (memory.base() == nullptr) {
    RETURN_IF_ERROR(memory.Map(options, small_page_bytes, 0));
    const bool is_advised = options.huge_pages == HugePages::kAuto &&
                            madvise(memory.base(), memory.mapped_bytes(), MADV_HUGEPAGE) == 0;
    pages = is_advised ? "transparent huge where the kernel gives them" : "small";
    if (memory.mapped_bytes() > system.available_bytes) {
      logger.Warn("the pool is larger than the memory that is free now",
                  {{"bytes", memory.mapped_bytes()}, {"available", system.available_bytes}});
    }
  }
  RETURN_IF_ERROR(BindAndTouch(options, memory, logger));
  logger.Info("pool memory is ready", {{"bytes", memory.capacity_bytes()},
                                       {"pages", pages},
                                       {"page_bytes", memory.page_bytes()},
                                       {"took", clock.Now() - begin}});
  return memory;
}

absl::Status SegmentMemory::Map(const SegmentMemoryOptions& options, uint64_t page_bytes,
                                unsigned memfd_flags) {
  SegmentMemory mapped;
  mapped.capacity_bytes_ = options.capacity_bytes;
  mapped.page_bytes_ = page_bytes;
  mapped.mapped_bytes_ = RoundUp(options.capacity_bytes, page_bytes);
  const uint64_t bytes = mapped.mapped_bytes_;
  mapped.fd_ = memfd_create("moonpool-dram", MFD_CLOEXEC | MFD_ALLOW_SEALING | memfd_flags);
  if (mapped.fd_ < 0) {
    return CallFailed("memfd_create", errno, bytes, "raise the limit of open files (ulimit -n)");
  }
  if (ftruncate(mapped.fd_, static_cast<off_t>(bytes)) != 0) {
    return CallFailed("ftruncate", errno, bytes, "lower --dram");
  }
  // Clients on this host get the descriptor: none of them may pull the memory from under the
  // others.
  if (fcntl(mapped.fd_, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return CallFailed("seal the memfd", errno, bytes,
                      "use a kernel that can (Linux 4.16 or newer)");
  }
  void* const base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, mapped.fd_, 0);
  if (base == MAP_FAILED) {
    return CallFailed("mmap", errno, bytes,
                      memfd_flags != 0 ? "reserve more huge pages, or use --huge-pages off"
                                       : "lower --dram, or look at vm.overcommit_memory");
  }
  mapped.base_ = static_cast<std::byte*>(base);
  *this = std::move(mapped);
  return absl::OkStatus();
}

SegmentMemory& SegmentMemory::operator=(SegmentMemory&& other) noexcept {
  std::swap(base_, other.base_);
  std::swap(capacity_bytes_, other.capacity_bytes_);
  std::swap(mapped_bytes_, other.mapped_bytes_);
  std::swap(page_bytes_, other.page_bytes_);
  std::swap(fd_, other.fd_);
  return *this;
}

SegmentMemory::~SegmentMemory() {
  if (base_ != nullptr) munmap(base_, mapped_bytes_);
  if (fd_ >= 0) close(fd_);
}

}  // namespace moonpool::storage_node
