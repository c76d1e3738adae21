#include "master/meta/rocks_meta_store.h"

#include <pthread.h>
#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/options.h>
#include <rocksdb/write_batch.h>

#include <cstdarg>
#include <cstdio>
#include <deque>
#include <filesystem>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "common/error.h"
#include "common/status_macros.h"

namespace moonpool::master {
namespace {

constexpr size_t kRecordsPerLook = 1024;  // at the clock, while everything is read

// RocksDB's warnings, in the master's log: a log file of its own would be on the disk that is full,
// and its writer aborts the process when it is used again after a failure.
class RocksLog final : public rocksdb::Logger {
 public:
  explicit RocksLog(const moonpool::Logger& logger)
      : rocksdb::Logger(rocksdb::InfoLogLevel::WARN_LEVEL), logger_(logger) {}

  using rocksdb::Logger::Logv;
  void Logv(const char* format, va_list arguments) override {
    char line[512];
    // Cut off at the end of the line's buffer.
    if (std::vsnprintf(line, sizeof(line), format, arguments) < 0) return;
    logger_.Warn("meta store: RocksDB says", {{"text", line}});
  }

 private:
  const moonpool::Logger& logger_;
};

rocksdb::Options StoreOptions(const moonpool::Logger& logger) {
  rocksdb::Options options;
  options.create_if_missing = true;
  options.paranoid_checks = true;
  // A write that a crash cut off is nothing that was promised. Anything else that does not fit is
  // an error: the default would drop what comes after it without a word.
  options.wal_recovery_mode = rocksdb::WALRecoveryMode::kTolerateCorruptedTailRecords;
  // A few thousand small records.
  options.write_buffer_size = size_t{4} << 20;
  options.max_background_jobs = 2;
  options.max_open_files = 64;
  options.max_manifest_file_size = size_t{1} << 20;
  options.compression = rocksdb::kNoCompression;
  options.info_log = std::make_shared<RocksLog>(logger);
  return options;
}

absl::Status Broken(absl::string_view dir, absl::string_view what) {
  return MakeError(absl::StatusCode::kDataLoss, ErrorReason::kUnspecified,
                   absl::StrCat("the meta store in ", dir, " is broken: ", what),
                   {.hint = "restore the folder from a backup; or move it away to begin with an "
                            "empty one, which forgets fingerprints and removals"});
}

absl::Status FromRocks(absl::string_view dir, const rocksdb::Status& status) {
  if (status.ok()) return absl::OkStatus();
  const std::string text = status.ToString();
  if (status.IsNoSpace()) {
    return MakeError(absl::StatusCode::kResourceExhausted, ErrorReason::kNoSpace,
                     absl::StrCat("no space for the meta store in ", dir, ": ", text),
                     {.hint = "make room on the master's disk", .retry_after = absl::Seconds(1)});
  }
  // RocksDB has no codes of their own for these.
  if (status.IsIOError() && absl::StrContains(text, "while open a file for lock")) {
    return MakeError(absl::StatusCode::kFailedPrecondition, ErrorReason::kUnspecified,
                     absl::StrCat("the meta store in ", dir, " cannot be written to: ", text),
                     {.hint = "give the folder to the user that the master runs as, on a disk "
                              "that is not read-only"});
  }
  if (status.IsIOError() && absl::StrContains(text, "/LOCK")) {
    return MakeError(absl::StatusCode::kFailedPrecondition, ErrorReason::kUnspecified,
                     absl::StrCat("the meta store in ", dir, " is in use: ", text),
                     {.hint = "stop the other master, or give this one a folder of its own"});
  }
  if (status.IsCorruption() || status.IsNotFound() || status.IsInvalidArgument()) {
    return Broken(dir, text);
  }
  return MakeError(absl::StatusCode::kUnavailable, ErrorReason::kUnspecified,
                   absl::StrCat("the meta store in ", dir, " failed: ", text),
                   {.hint = "look at the master's disk", .retry_after = absl::Seconds(1)});
}

absl::StatusOr<std::unique_ptr<rocksdb::DB>> OpenDb(const std::string& dir,
                                                    const moonpool::Logger& logger) {
  rocksdb::DB* db = nullptr;
  const rocksdb::Status status = rocksdb::DB::Open(StoreOptions(logger), dir, &db);
  std::unique_ptr<rocksdb::DB> owned(db);
  RETURN_IF_ERROR(FromRocks(dir, status));
  return owned;
}

// RocksDB would begin an empty store where a part of one is left, or among files of others.
absl::Status CheckDir(const std::string& dir) {
  std::error_code error;
  std::filesystem::create_directories(dir, error);
  std::filesystem::directory_iterator entries;
  if (!error) entries = std::filesystem::directory_iterator(dir, error);
  if (error) {
    return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kBadArgument,
                     absl::StrCat("no folder for the meta store at ", dir, ": ", error.message()),
                     {.hint = "give a folder that the master may write to"});
  }
  bool is_store = false;
  bool is_begun = false;
  std::string other;
  for (const auto& entry : entries) {
    const std::string name = entry.path().filename().string();
    if (name == "CURRENT") is_store = true;
    const bool is_rocks = name == "LOCK" || name == "IDENTITY" || absl::StartsWith(name, "LOG") ||
                          absl::StartsWith(name, "OPTIONS-");
    const bool is_content = absl::StartsWith(name, "MANIFEST-") || absl::EndsWith(name, ".sst") ||
                            absl::EndsWith(name, ".log");
    if (is_content) is_begun = true;
    if (!is_rocks && !is_content) other = name;
  }
  if (is_store) return absl::OkStatus();
  if (is_begun) return Broken(dir, "the file CURRENT is missing");
  if (other.empty()) return absl::OkStatus();
  return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kBadArgument,
                   absl::StrCat(dir, " is no meta store, and not empty: ", other, " is in it"),
                   {.hint = "give a folder of its own"});
}

}  // namespace

class RocksMetaStore::Impl {
 public:
  Impl(const RocksMetaStoreOptions& options, const Dependencies& with,
       std::unique_ptr<rocksdb::DB> db)
      : options_(options), clock_(with.clock), logger_(with.logger), db_(std::move(db)) {
    thread_ = std::thread([this] {
      pthread_setname_np(pthread_self(), "meta");
      Run();
    });
  }
  ~Impl() {
    {
      absl::MutexLock lock(&mutex_);
      is_stopping_ = true;
    }
    thread_.join();
  }

  absl::StatusOr<std::vector<MetaRecord>> Load(absl::Time deadline) {
    const std::shared_ptr<rocksdb::DB> db = OpenedDb();
    if (db == nullptr) {
      return MakeError(absl::StatusCode::kUnavailable, ErrorReason::kUnspecified,
                       absl::StrCat("the meta store in ", options_.dir, " is closed: it failed"),
                       {.hint = "the next write opens it again"});
    }
    std::vector<MetaRecord> records;
    rocksdb::ReadOptions read;
    read.verify_checksums = true;
    const std::unique_ptr<rocksdb::Iterator> each(db->NewIterator(read));
    for (each->SeekToFirst(); each->Valid(); each->Next()) {
      if (records.size() % kRecordsPerLook == 0 && clock_.Now() >= deadline) {
        return MakeError(absl::StatusCode::kDeadlineExceeded, ErrorReason::kDeadline,
                         absl::StrCat("the meta store in ", options_.dir, " was not read in time"));
      }
      records.push_back({each->key().ToString(), each->value().ToString()});
    }
    RETURN_IF_ERROR(FromRocks(options_.dir, each->status()));
    return records;
  }

  void Write(MetaBatch batch, WriteDone done) {
    {
      absl::MutexLock lock(&mutex_);
      if (under_way_ < options_.writes_max) {
        ++under_way_;
        queue_.push_back(Queued{std::move(batch), std::move(done)});
        return;
      }
    }
    std::move(done)(
        MakeError(absl::StatusCode::kResourceExhausted, ErrorReason::kLimitReached,
                  absl::StrCat(options_.writes_max, " writes to the meta store are under way"),
                  {.hint = "try again later", .retry_after = absl::Milliseconds(100)}));
  }

 private:
  struct Queued {
    MetaBatch batch;
    WriteDone done;
  };

  // Until it is stopping and all is written.
  void Run() {
    while (true) {
      std::deque<Queued> taken;
      {
        absl::MutexLock lock(&mutex_);
        mutex_.Await(absl::Condition(this, &Impl::HasWork));
        if (queue_.empty()) return;
        taken.swap(queue_);
      }
      const absl::Status status = WriteAll(taken);
      for (Queued& queued : taken) {
        {
          absl::MutexLock lock(&mutex_);
          --under_way_;
        }
        std::move(queued.done)(status);
      }
    }
  }

  bool HasWork() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return is_stopping_ || !queue_.empty();
  }

  absl::Status WriteAll(const std::deque<Queued>& all) {
    rocksdb::WriteBatch together;
    for (const Queued& queued : all) {
      for (const MetaChange& change : queued.batch) {
        const rocksdb::Status status = change.value.has_value()
                                           ? together.Put(change.key, *change.value)
                                           : together.Delete(change.key);
        RETURN_IF_ERROR(FromRocks(options_.dir, status));
      }
    }
    if (OpenedDb() == nullptr) {
      ASSIGN_OR_RETURN(std::unique_ptr<rocksdb::DB> db, OpenDb(options_.dir, logger_));
      absl::MutexLock lock(&mutex_);
      db_ = std::move(db);
    }
    rocksdb::WriteOptions durable;
    durable.sync = true;
    const rocksdb::Status status = OpenedDb()->Write(durable, &together);
    // After a failure RocksDB takes no more writes: it is opened again for the next one.
    if (!status.ok()) CloseDb();
    return FromRocks(options_.dir, status);
  }

  std::shared_ptr<rocksdb::DB> OpenedDb() {
    absl::MutexLock lock(&mutex_);
    return db_;
  }
  void CloseDb() {
    std::shared_ptr<rocksdb::DB> closing;  // closed once the lock is released
    absl::MutexLock lock(&mutex_);
    closing.swap(db_);
  }

  const RocksMetaStoreOptions options_;
  const Clock& clock_;
  const moonpool::Logger& logger_;

  absl::Mutex mutex_;
  // Replaced by the thread after a failure, while another one may read everything. nullptr: closed.
  std::shared_ptr<rocksdb::DB> db_ ABSL_GUARDED_BY(mutex_);
  std::deque<Queued> queue_ ABSL_GUARDED_BY(mutex_);
  size_t under_way_ ABSL_GUARDED_BY(mutex_) = 0;  // the queue, and what was taken from it
  bool is_stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

absl::StatusOr<std::unique_ptr<RocksMetaStore>> RocksMetaStore::Open(
    const RocksMetaStoreOptions& options, const Dependencies& with) {
  RETURN_IF_ERROR(CheckDir(options.dir));
  ASSIGN_OR_RETURN(std::unique_ptr<rocksdb::DB> db, OpenDb(options.dir, with.logger));
  return std::unique_ptr<RocksMetaStore>(
      new RocksMetaStore(std::make_unique<Impl>(options, with, std::move(db))));
}

RocksMetaStore::RocksMetaStore(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

RocksMetaStore::~RocksMetaStore() = default;

absl::StatusOr<std::vector<MetaRecord>> RocksMetaStore::Load(absl::Time deadline) {
  return impl_->Load(deadline);
}

void RocksMetaStore::Write(MetaBatch batch, WriteDone done) {
  impl_->Write(std::move(batch), std::move(done));
}

}  // namespace moonpool::master
