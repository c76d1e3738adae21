#include "storage_node/memory/growing_file.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/error.h"
#include "common/status_macros.h"

namespace moonpool::storage_node {
namespace {

constexpr size_t kStepBytes = size_t{1} << 20;
constexpr char kHint[] =
    "make the file system of --pool-dir larger (mount -o remount,size=), or lower --dram";

size_t RoundUp(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace

absl::StatusOr<GrowingFile> GrowingFile::Create(const PoolDirectory& directory,
                                                const std::string& name, size_t bytes_max) {
  ASSIGN_OR_RETURN(UniqueFd file, directory.NewFile(name));
  return Map(directory, std::move(file), bytes_max);
}

absl::StatusOr<GrowingFile> GrowingFile::Open(const PoolDirectory& directory,
                                              const std::string& name, size_t bytes_max) {
  ASSIGN_OR_RETURN(UniqueFd file, directory.OpenFile(name));
  return Map(directory, std::move(file), bytes_max);
}

absl::StatusOr<GrowingFile> GrowingFile::Map(const PoolDirectory& directory, UniqueFd file,
                                             size_t bytes_max) {
  GrowingFile mapped;
  mapped.file_ = std::move(file);
  mapped.step_bytes_ = RoundUp(kStepBytes, directory.page_bytes());
  struct stat info {};
  if (fstat(mapped.file_.get(), &info) != 0) return absl::ErrnoToStatus(errno, "fstat");
  const size_t size = static_cast<size_t>(info.st_size);
  mapped.ready_bytes_ = size / directory.page_bytes() * directory.page_bytes();
  // One that was allowed to become larger is taken as a whole: what is left out now could be found
  // again later, when it is not true any more.
  mapped.bytes_max_ = std::max(RoundUp(bytes_max, directory.page_bytes()), mapped.ready_bytes_);
  // It may have holes: whoever copies a file may leave them.
  RETURN_IF_ERROR(AllocateFile(mapped.file_.get(), 0, mapped.ready_bytes_, kHint));
  // Writable only once it is mapped: a writable mapping makes a file on hugetlbfs as large as
  // itself, and the next life would take that for the part that has memory.
  void* const base = mmap(nullptr, mapped.bytes_max_, PROT_READ, MAP_SHARED | MAP_NORESERVE,
                          mapped.file_.get(), 0);
  if (base == MAP_FAILED || mprotect(base, mapped.bytes_max_, PROT_READ | PROT_WRITE) != 0) {
    const int error = errno;
    return MakeError(absl::StatusCode::kResourceExhausted, ErrorReason::kNoSpace,
                     absl::StrCat("mmap of ", mapped.bytes_max_, " bytes of address space: ",
                                  std::generic_category().message(error)),
                     {.hint = "raise the address space limit (ulimit -v, LimitAS=), or lower "
                              "--data-parts-max"});
  }
  mapped.base_ = static_cast<std::byte*>(base);
  return mapped;
}

absl::StatusOr<size_t> GrowingFile::MakeReady(size_t bytes) {
  if (bytes <= ready_bytes_) return ready_bytes_;
  if (bytes > bytes_max_) return absl::ResourceExhaustedError("the file is at its largest");
  const size_t target = std::min(RoundUp(bytes, step_bytes_), bytes_max_);
  RETURN_IF_ERROR(AllocateFile(file_.get(), ready_bytes_, target, kHint));
  ready_bytes_ = target;
  return ready_bytes_;
}

GrowingFile& GrowingFile::operator=(GrowingFile&& other) noexcept {
  std::swap(file_, other.file_);
  std::swap(base_, other.base_);
  std::swap(bytes_max_, other.bytes_max_);
  std::swap(ready_bytes_, other.ready_bytes_);
  std::swap(step_bytes_, other.step_bytes_);
  return *this;
}

GrowingFile::~GrowingFile() {
  if (base_ != nullptr) munmap(base_, bytes_max_);
}

}  // namespace moonpool::storage_node
