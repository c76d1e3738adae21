#include "storage_node/memory/segment_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/error.h"
#include "common/map_shared.h"
#include "common/status_macros.h"
#include "storage_node/memory/numa_binding.h"
#include "storage_node/memory/prefault.h"
#include "storage_node/memory/system_memory.h"

namespace moonpool::storage_node {
namespace {

using absl::StatusCode;

constexpr int kPrefaultThreadsMax = 8;
constexpr char kFileSystemHint[] =
    "make the file system of --pool-dir larger (mount -o remount,size=), or lower --dram";
constexpr uint64_t kProgressFrom = uint64_t{4} << 30;

uint64_t SmallPageBytes() { return static_cast<uint64_t>(sysconf(_SC_PAGESIZE)); }
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

absl::Status Bind(const SegmentMemoryOptions& options, const SegmentMemory& memory,
                  Logger& logger) {
  if (options.numa_node < 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(const bool is_bound,
                   BindToNumaNode({memory.base(), memory.mapped_bytes()}, options.numa_node));
  if (!is_bound) {
    logger.Info("pool memory is not bound: the machine has one NUMA node",
                {{"numa_node", options.numa_node}});
  }
  return absl::OkStatus();
}

// Says what its pages are.
absl::StatusOr<std::string> Touch(const SegmentMemoryOptions& options, const SegmentMemory& memory,
                                  PrefaultOptions prefault, Logger& logger) {
  const absl::Span<std::byte> all(memory.base(), memory.mapped_bytes());
  const bool has_small_pages = memory.page_bytes() == SmallPageBytes();
  prefault.threads = PrefaultThreads(options.prefault_threads);
  prefault.page_bytes = memory.page_bytes();
  prefault.wants_huge_pages = has_small_pages && options.huge_pages == HugePages::kAuto;
  prefault.should_stop = options.should_stop;
  // Enough where shmem_enabled or the mount option huge= says so, also on an older kernel.
  if (prefault.wants_huge_pages) (void)madvise(all.data(), all.size(), MADV_HUGEPAGE);
  if (all.size() >= kProgressFrom) {
    prefault.on_progress = [&logger, &all](uint64_t done) {
      logger.Info("preparing pool memory", {{"bytes_done", done}, {"bytes", all.size()}});
    };
  }
  ASSIGN_OR_RETURN(const uint64_t huge_bytes, Prefault(all, prefault));
  if (!has_small_pages) return "reserved huge";
  if (huge_bytes == 0) {
    return prefault.wants_huge_pages ? "transparent huge where the kernel gives them" : "small";
  }
  return absl::StrCat("transparent huge, of ", huge_bytes, " bytes");
}

void WarnIfTight(const SegmentMemory& memory, const SystemMemory& system, Logger& logger) {
  if (memory.mapped_bytes() <= system.available_bytes) return;
  logger.Warn("the pool is larger than the memory that is free now",
              {{"bytes", memory.mapped_bytes()}, {"available", system.available_bytes}});
}

void LogReady(const SegmentMemory& memory, absl::string_view pages, absl::Duration took,
              Logger& logger) {
  logger.Info("pool memory is ready", {{"bytes", memory.capacity_bytes()},
                                       {"pages", pages},
                                       {"page_bytes", memory.page_bytes()},
                                       {"took", took}});
}

// What --huge-pages asks for and the folder cannot give.
absl::Status CheckPages(const PoolDirectory& directory, HugePages huge_pages) {
  if (huge_pages == HugePages::kOn && !directory.has_huge_pages()) {
    return MakeError(StatusCode::kInvalidArgument, ErrorReason::kBadArgument,
                     absl::StrCat(directory.path(), " has no huge pages"),
                     {.hint = "name a folder on hugetlbfs, or use --huge-pages auto"});
  }
  if (huge_pages == HugePages::kOff && directory.has_huge_pages()) {
    return MakeError(StatusCode::kInvalidArgument, ErrorReason::kBadArgument,
                     absl::StrCat(directory.path(), " has huge pages only"),
                     {.hint = "name a folder on tmpfs, or use --huge-pages auto"});
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<SegmentMemory> SegmentMemory::Allocate(const SegmentMemoryOptions& options,
                                                      const Clock& clock, Logger& logger) {
  const SystemMemory system = ReadSystemMemory();
  RETURN_IF_ERROR(CheckSize(options, system));
  const absl::Time begin = clock.Now();

  SegmentMemory memory;
  if (options.huge_pages != HugePages::kOff) {
    const uint64_t unit = std::max<uint64_t>(system.huge_page_bytes, 1);
    const uint64_t needed = RoundUp(options.capacity_bytes, unit) / unit;
    absl::StatusOr<SegmentMemory> huge = NotEnoughHugePages(needed, system);
    if (system.huge_page_bytes != 0 && needed <= system.free_huge_pages) {
      huge = Memfd(options.capacity_bytes, system.huge_page_bytes, MFD_HUGETLB);
    }
    if (huge.ok()) {
      memory = *std::move(huge);
    } else if (options.huge_pages == HugePages::kOn) {
      return huge.status();
    }
  }
  if (memory.base() == nullptr) {
    ASSIGN_OR_RETURN(memory, Memfd(options.capacity_bytes, SmallPageBytes(), 0));
    WarnIfTight(memory, system, logger);
  }
  RETURN_IF_ERROR(Bind(options, memory, logger));
  ASSIGN_OR_RETURN(const std::string pages, Touch(options, memory, {}, logger));
  LogReady(memory, pages, clock.Now() - begin, logger);
  return memory;
}

absl::StatusOr<SegmentMemory> SegmentMemory::Memfd(uint64_t capacity_bytes, uint64_t page_bytes,
                                                   unsigned flags) {
  const uint64_t bytes = RoundUp(capacity_bytes, page_bytes);
  UniqueFd file(memfd_create("moonpool-dram", MFD_CLOEXEC | MFD_ALLOW_SEALING | flags));
  if (!file.valid()) {
    return CallFailed("memfd_create", errno, bytes, "raise the limit of open files (ulimit -n)");
  }
  if (ftruncate(file.get(), static_cast<off_t>(bytes)) != 0) {
    return CallFailed("ftruncate", errno, bytes, "lower --dram");
  }
  // Clients on this host get the descriptor: none of them may pull the memory from under the
  // others.
  if (fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return CallFailed("seal the memfd", errno, bytes,
                      "use a kernel that can (Linux 4.16 or newer)");
  }
  return Map(std::move(file), capacity_bytes, page_bytes,
             flags != 0 ? "reserve more huge pages, or use --huge-pages off"
                        : "lower --dram, or look at vm.overcommit_memory");
}

absl::StatusOr<SegmentMemory> SegmentMemory::Map(UniqueFd file, uint64_t capacity_bytes,
                                                 uint64_t page_bytes, const char* hint) {
  SegmentMemory mapped;
  mapped.capacity_bytes_ = capacity_bytes;
  mapped.page_bytes_ = page_bytes;
  mapped.mapped_bytes_ = RoundUp(capacity_bytes, page_bytes);
  mapped.fd_ = std::move(file);
  void* const base = MapShared(mapped.fd_.get(), mapped.mapped_bytes_, PROT_READ | PROT_WRITE);
  if (base == MAP_FAILED) return CallFailed("mmap", errno, mapped.mapped_bytes_, hint);
  mapped.base_ = static_cast<std::byte*>(base);
  return mapped;
}

absl::StatusOr<SegmentMemory> SegmentMemory::CreateFile(const PoolDirectory& directory,
                                                        const std::string& name,
                                                        const SegmentMemoryOptions& options,
                                                        const Clock& clock, Logger& logger) {
  const SystemMemory system = ReadSystemMemory();
  RETURN_IF_ERROR(CheckSize(options, system));
  RETURN_IF_ERROR(CheckPages(directory, options.huge_pages));
  const absl::Time begin = clock.Now();
  ASSIGN_OR_RETURN(UniqueFd file, directory.NewFile(name));
  const uint64_t bytes = RoundUp(options.capacity_bytes, directory.page_bytes());
  if (ftruncate(file.get(), static_cast<off_t>(bytes)) != 0) {
    return CallFailed("ftruncate", errno, bytes, "lower --dram");
  }
  ASSIGN_OR_RETURN(
      SegmentMemory memory,
      Map(std::move(file), options.capacity_bytes, directory.page_bytes(),
          directory.has_huge_pages() ? "reserve more huge pages (vm.nr_hugepages), or lower --dram"
                                     : "lower --dram, or look at vm.overcommit_memory"));
  if (!directory.has_huge_pages()) WarnIfTight(memory, system, logger);
  RETURN_IF_ERROR(Bind(options, memory, logger));
  RETURN_IF_ERROR(CheckRoom(memory.fd(), 0, memory.mapped_bytes(), kFileSystemHint));
  // A file system that is full says so now. To touch a page that it has none for is a signal.
  const auto reserve = [&memory](uint64_t from, uint64_t to) {
    return AllocateFile(memory.fd(), from, to, kFileSystemHint);
  };
  ASSIGN_OR_RETURN(const std::string pages, Touch(options, memory, {.reserve = reserve}, logger));
  LogReady(memory, pages, clock.Now() - begin, logger);
  return memory;
}

absl::StatusOr<SegmentMemory> SegmentMemory::OpenFile(const PoolDirectory& directory,
                                                      const std::string& name,
                                                      const SegmentMemoryOptions& options) {
  RETURN_IF_ERROR(CheckPages(directory, options.huge_pages));
  ASSIGN_OR_RETURN(UniqueFd file, directory.OpenFile(name));
  struct stat info {};
  if (fstat(file.get(), &info) != 0) return absl::ErrnoToStatus(errno, "fstat of the pool");
  const uint64_t bytes = RoundUp(options.capacity_bytes, directory.page_bytes());
  constexpr uint64_t kBlockBytes = 512;  // of st_blocks, whatever the file system's are
  if (static_cast<uint64_t>(info.st_size) != bytes ||
      static_cast<uint64_t>(info.st_blocks) * kBlockBytes < bytes) {
    return MakeError(StatusCode::kFailedPrecondition, ErrorReason::kBadArgument,
                     absl::StrCat("it has ", info.st_size, " bytes of which ",
                                  static_cast<uint64_t>(info.st_blocks) * kBlockBytes,
                                  " have memory, and should have ", bytes));
  }
  return Map(std::move(file), options.capacity_bytes, directory.page_bytes(), "lower --dram");
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
}

}  // namespace moonpool::storage_node
