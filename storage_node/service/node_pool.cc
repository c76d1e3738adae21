#include "storage_node/service/node_pool.h"

#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/checksum.h"
#include "common/error.h"
#include "common/random.h"
#include "common/status_macros.h"
#include "transport/shm/pin_file.h"

namespace moonpool::storage_node {
namespace {

constexpr char kPoolFile[] = "pool";
constexpr char kIndexFile[] = "index";
constexpr char kPinsFolder[] = "/pins";
constexpr char kMedium[] = "dram";

Incarnation NewIncarnation() {
  uint64_t value = 0;
  while (value == 0) value = EntropySeed();
  return Incarnation{value};
}

std::string ReadText(const std::string& path) {
  std::ifstream file(path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// Of a folder on this host, until it starts anew. Empty: there is none.
std::string NumbersOf(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return {};
  return absl::StrCat(info.st_dev, "/", info.st_ino);
}

// What the index has from the start: a record of four cells for each 64 KiB. Where parts are
// smaller, or their names longer, it grows as long as there is memory.
constexpr uint64_t kPoolBytesPerIndexByte = 256;

// An extent is no shorter than its header, so a small pool has room for few parts.
size_t TableBytesFor(const NodePoolOptions& options) {
  return TableBytesMax(
      std::min(options.parts_max, options.memory.capacity_bytes / kPartHeaderBytes));
}

size_t ReservedFor(const NodePoolOptions& options) {
  return std::min(options.memory.capacity_bytes / kPoolBytesPerIndexByte, TableBytesFor(options));
}

}  // namespace

absl::StatusOr<std::unique_ptr<NodePool>> NodePool::Open(NodePoolOptions options,
                                                         const Clock& clock, Logger& logger) {
  std::unique_ptr<NodePool> pool(new NodePool(std::move(options)));
  const NodePoolOptions& given = pool->options_;
  if (given.dir.empty()) {
    RETURN_IF_ERROR(pool->MakeVolatile(clock, logger));
    return pool;
  }
  ASSIGN_OR_RETURN(pool->directory_, PoolDirectory::Open({.path = given.dir,
                                                          .lock_wait = given.lock_wait,
                                                          .should_stop = given.memory.should_stop},
                                                         clock));
  RETURN_IF_ERROR(pool->FindPinsFolder());
  const absl::Time begin = clock.Now();
  const absl::StatusOr<RestoreReport> report = pool->TakeOver();
  if (report.ok()) {
    RETURN_IF_ERROR(pool->AdoptClients(report->taken));
    pool->LogKept(*report, clock.Now() - begin, logger);
    return pool;
  }
  if (absl::IsFailedPrecondition(report.status())) {
    logger.Warn("what is in the pool's folder does not fit: the pool starts empty",
                {{"dir", given.dir}, {"why", Describe(report.status())}});
  } else if (!absl::IsNotFound(report.status())) {
    return report.status();
  }
  RETURN_IF_ERROR(pool->MakeNew(clock, logger));
  return pool;
}

absl::Status NodePool::MakeVolatile(const Clock& clock, Logger& logger) {
  ASSIGN_OR_RETURN(memory_, SegmentMemory::Allocate(options_.memory, clock, logger));
  incarnation_ = NewIncarnation();
  MakeIndex(no_journal_);
  return absl::OkStatus();
}

absl::Status NodePool::FindPinsFolder() {
  const std::string usual = options_.dir + kPinsFolder;
  pins_dir_ = options_.pins_dir;
  if (!pins_dir_.empty()) {
    RETURN_IF_ERROR(transport::PreparePinsFolder(pins_dir_));
    pins_folder_ = NumbersOf(pins_dir_);
    if (pins_folder_ == NumbersOf(usual)) pins_folder_.clear();
    return absl::OkStatus();
  }
  if (directory_->has_huge_pages()) {
    return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kBadArgument,
                     absl::StrCat(options_.dir, " is on hugetlbfs, where no pins can be kept"),
                     {.hint = "set --pool-pins-dir to a folder on tmpfs, for this node alone"});
  }
  pins_dir_ = usual;
  return absl::OkStatus();
}

absl::StatusOr<RestoreReport> NodePool::TakeOver() {
  absl::StatusOr<GrowingFile> table_file =
      GrowingFile::Open(*directory_, kIndexFile, TableBytesFor(options_));
  RETURN_IF_ERROR(Annotate(table_file.status(), "open the index"));
  absl::StatusOr<SegmentMemory> memory =
      SegmentMemory::OpenFile(*directory_, kPoolFile, options_.memory);
  // An index without a pool is worth a word.
  if (absl::IsNotFound(memory.status())) {
    return absl::FailedPreconditionError("there is an index, and no pool");
  }
  RETURN_IF_ERROR(Annotate(memory.status(), "open the pool"));
  memory_ = *std::move(memory);
  table_file_ = *std::move(table_file);
  absl::StatusOr<RecordTable> table = RecordTable::Open(MemoryOfTable(), Identity());
  RETURN_IF_ERROR(Annotate(table.status(), "read the index"));
  incarnation_ = table->incarnation();
  // An older release may have made it. What is there is worth more than a reserve.
  static_cast<void>(table_file_->MakeReady(ReservedFor(options_)));
  journal_.emplace(*std::move(table));
  MakeIndex(*journal_);
  return RestoreIndex(*journal_, *index_);
}

void NodePool::LogKept(const RestoreReport& report, absl::Duration took, Logger& logger) const {
  logger.Info("the pool is kept", {{"dir", options_.dir},
                                   {"incarnation", incarnation_.value},
                                   {"parts", report.parts},
                                   {"bytes", report.bytes},
                                   {"in_use_parts", report.taken_parts},
                                   {"damaged", report.damaged},
                                   {"malformed", report.malformed},
                                   {"not_in_pool", report.not_in_pool},
                                   {"superseded", report.superseded},
                                   {"clients", orphans_.size()},
                                   {"took", took}});
}

absl::Status NodePool::AdoptClients(const absl::flat_hash_set<Generation>& taken) {
  auto orphans = transport::AdoptPinPages(pins_dir_, taken);
  RETURN_IF_ERROR(Annotate(orphans.status(), "find out what clients of this host still use"));
  orphans_ = *std::move(orphans);
  for (const auto& orphan : orphans_) index_->AttachViewer(orphan.get());
  return absl::OkStatus();
}

size_t NodePool::ReleaseEnded() {
  std::erase_if(orphans_, [this](const auto& orphan) {
    if (!orphan->has_ended()) return false;
    index_->DetachViewer(orphan.get());
    return true;
  });
  return orphans_.size();
}

NodePool::~NodePool() {
  for (const auto& orphan : orphans_) index_->DetachViewer(orphan.get());
}

// The old index goes first and the new one is filled last, so that whenever this ends there is none
// that can be read, or one that fits. Its room is taken before that of the pool, which takes long
// to make: what does not fit beside it leaves nothing behind.
absl::Status NodePool::MakeNew(const Clock& clock, Logger& logger) {
  index_.reset();
  journal_.reset();
  table_file_.reset();
  memory_.reset();
  RETURN_IF_ERROR(directory_->Remove(kIndexFile));
  const absl::Status made = MakeFiles(clock, logger);
  if (!made.ok()) {
    table_file_.reset();
    for (const char* file : {kIndexFile, kPoolFile}) directory_->Remove(file).IgnoreError();
    return made;
  }
  incarnation_ = NewIncarnation();
  absl::StatusOr<RecordTable> table =
      RecordTable::Create(MemoryOfTable(), Identity(), incarnation_);
  RETURN_IF_ERROR(Annotate(table.status(), "make the index"));
  journal_.emplace(*std::move(table));
  MakeIndex(*journal_);
  // Removes the pages that clients of earlier lives have left. Those that are in use are of memory
  // that is no pool any more; the next life finds them again. What fails here costs a few files.
  static_cast<void>(transport::AdoptPinPages(pins_dir_, {}));
  return absl::OkStatus();
}

absl::Status NodePool::MakeFiles(const Clock& clock, Logger& logger) {
  ASSIGN_OR_RETURN(table_file_,
                   GrowingFile::Create(*directory_, kIndexFile, TableBytesFor(options_)));
  RETURN_IF_ERROR(
      Annotate(table_file_->MakeReady(ReservedFor(options_)).status(), "reserve the index"));
  ASSIGN_OR_RETURN(
      memory_, SegmentMemory::CreateFile(*directory_, kPoolFile, options_.memory, clock, logger));
  return absl::OkStatus();
}

TableIdentity NodePool::Identity() const {
  struct stat info {};
  const bool is_known = fstat(memory_->fd(), &info) == 0;
  return {.boot = Checksum(ReadText(options_.boot_id_path)),
          .file = is_known ? Checksum(absl::StrCat(info.st_dev, "/", info.st_ino)) : 0,
          .segments = Checksum(
              absl::StrCat(kMedium, "/", memory_->capacity_bytes(),
                           // Elsewhere nobody would see what clients of the last life still view.
                           pins_folder_.empty() ? "" : absl::StrCat("/", pins_folder_)))};
}

TableMemory NodePool::MemoryOfTable() {
  return {.bytes = table_file_->bytes(),
          .ready_bytes = table_file_->ready_bytes(),
          .make_ready = [this](size_t bytes) { return table_file_->MakeReady(bytes); }};
}

void NodePool::MakeIndex(SealJournal& journal) {
  std::vector<PoolSegment> segments;
  segments.push_back({.id = SegmentId{0},
                      .medium = kMedium,
                      .base = memory_->base(),
                      .capacity_bytes = memory_->capacity_bytes()});
  index_ = std::make_unique<ExtentIndex>(
      std::move(segments), journal,
      ExtentIndexOptions{.parts_per_segment_max = options_.parts_max});
}

}  // namespace moonpool::storage_node
