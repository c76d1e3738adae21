#include "tests/chaos/worker.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cli/dev_cluster/stop_fd.h"
#include "common/check.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/random.h"
#include "common/unique_fd.h"
#include "moonpool/client.h"
#include "tests/history/record.h"
#include "tests/history/values.h"

namespace moonpool::chaos {
namespace {

using history::Op;
using history::Outcome;
using history::Record;

constexpr size_t kThreads = 2;
constexpr absl::Duration kTimeout = absl::Seconds(4);
constexpr size_t kLargestValue = 3 << 20;
constexpr uint64_t kPauseMillisMax = 25;  // between two calls of a thread

// Both outcomes that say nothing about a fault, and the errors that no call may have.
Outcome OutcomeOfError(const absl::Status& status) {
  switch (ReasonOf(status)) {
    case ErrorReason::kBytesPinned:      // somebody looks at the bytes
    case ErrorReason::kStaleGeneration:  // it moved faster than it could be followed
      return Outcome::kConflict;
    case ErrorReason::kChecksumMismatch:  // nobody damages any bytes here
      return Outcome::kRefused;
    default: break;
  }
  switch (status.code()) {
    case absl::StatusCode::kNotFound: return Outcome::kAbsent;
    case absl::StatusCode::kAlreadyExists: return Outcome::kThere;
    case absl::StatusCode::kAborted: return Outcome::kConflict;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kResourceExhausted: return Outcome::kUndecided;
    default: return Outcome::kRefused;
  }
}

void Settle(const absl::Status& status, Record& record) {
  record.outcome = status.ok() ? Outcome::kDone : OutcomeOfError(status);
  if (!status.ok()) record.words = Describe(status);
}

std::vector<std::byte> CopyOf(const View& view) {
  std::vector<std::byte> bytes;
  for (const ConstBuffer piece : view.pieces()) {
    bytes.insert(bytes.end(), piece.begin(), piece.end());
  }
  return bytes;
}

// One thread of a client.
class Caller {
 public:
  Caller(Client& client, const WorkerOptions& options, uint64_t thread, int records)
      : client_(client),
        options_(options),
        client_id_(options.id * kThreads + thread),
        random_(options.seed * 1'000'003 + client_id_),
        records_(records) {}

  void Work(const std::atomic<bool>& is_stopping) {
    while (!is_stopping) {
      const size_t key = random_.Below(options_.keys);
      const uint64_t choice = random_.Below(100);
      if (choice < 35) {
        Put(key);
      } else if (choice < 70) {
        Get(key);
      } else if (choice < 78) {
        LookAt(key);
      } else if (choice < 95) {
        Ask(key);
      } else {
        Remove(key);
      }
      poll(nullptr, 0, static_cast<int>(random_.Below(kPauseMillisMax)));
    }
  }

  void Verify() {
    for (size_t key = 0; key < options_.keys; ++key) {
      Ask(key);
      Get(key);
    }
  }

 private:
  struct Held {
    View view;
    std::vector<std::byte> bytes;
    Record record;
  };

  // Every second key has two replicas.
  Record Begin(Op op, size_t key, uint64_t value = 0) {
    Record record{.client = client_id_,
                  .op = op,
                  .key = absl::StrCat("key-", key),
                  .value = value,
                  .replicas = static_cast<uint32_t>(1 + key % 2),
                  .invoked = clock_.Now()};
    Write(history::BeginLine(NextCall(), record));
    return record;
  }
  void End(Record record) {
    record.returned = clock_.Now();
    Write(history::EndLine(call_, record));
  }
  // Threads write to one file; what is appended at once stays together.
  void Write(const std::string& line) const {
    const ssize_t written = write(records_, line.data(), line.size());
    MP_CHECK(written == static_cast<ssize_t>(line.size()), "the records cannot be written");
  }
  uint64_t NextCall() { return call_ = (client_id_ << 40) | ++calls_; }

  size_t RandomSize() {
    const uint64_t choice = random_.Below(100);
    const size_t most = choice < 60 ? 4096 : choice < 95 ? 65536 : kLargestValue;
    return sizeof(uint64_t) + random_.Below(most - sizeof(uint64_t));
  }

  void Put(size_t key) {
    const uint64_t attempt = (client_id_ << 40) | ++attempts_;
    Record record = Begin(Op::kPut, key, attempt);
    const auto value = history::ValueOf(record.key, attempt, RandomSize());
    Settle(client_.Put(record.key, value, {.replicas = record.replicas}), record);
    End(record);
  }

  void Get(size_t key) {
    if (buffer_.empty()) buffer_.resize(kLargestValue);
    Record record = Begin(Op::kGet, key);
    const auto got = client_.Get(record.key, absl::MakeSpan(buffer_));
    Settle(got.status(), record);
    if (got.ok()) {
      record.value = history::AttemptOf(record.key, absl::MakeSpan(buffer_).subspan(0, *got));
    }
    End(record);
  }

  void LookAt(size_t key) {
    if (held_.has_value()) Release();
    Record record = Begin(Op::kView, key);
    auto view = client_.GetView(record.key);
    Settle(view.status(), record);
    if (ReasonOf(view.status()) == ErrorReason::kPeerUnreachable) {
      record.outcome = Outcome::kConflict;  // it is on another host
    }
    if (view.ok()) {
      std::vector<std::byte> bytes = CopyOf(*view);
      record.value = history::AttemptOf(record.key, bytes);
      // The node is gone, and with it the promise.
      if (!view->valid()) record.outcome = Outcome::kConflict;
      held_.emplace(Held{*std::move(view), std::move(bytes), record});
    }
    End(record);
  }

  // What was looked at must still be there.
  void Release() {
    const bool is_changed = CopyOf(held_->view) != held_->bytes;
    if (is_changed && held_->view.valid()) {
      Record record = held_->record;
      Write(history::BeginLine(NextCall(), record));
      record.outcome = Outcome::kRefused;
      record.words = "the bytes of a view changed under it";
      End(record);
    }
    held_.reset();
  }

  void Ask(size_t key) {
    Record record = Begin(Op::kExists, key);
    Settle(client_.Exists({record.key})[0], record);
    End(record);
  }

  void Remove(size_t key) {
    Record record = Begin(Op::kRemove, key);
    Settle(client_.Remove({record.key})[0], record);
    End(record);
  }

  const SteadyClock clock_ = {};
  Client& client_;
  const WorkerOptions& options_;
  const uint64_t client_id_;
  Random random_;
  const int records_;
  uint64_t call_ = 0;
  uint64_t calls_ = 0;
  uint64_t attempts_ = 0;
  std::vector<std::byte> buffer_;
  std::optional<Held> held_;
};

// Until there is one, or it is asked to stop: nullptr.
std::unique_ptr<Client> ConnectAtLast(const WorkerOptions& options, const dev::StopFd& stop) {
  while (!stop.is_requested()) {
    auto client = Client::Connect({.masters = options.masters,
                                   .timeout = kTimeout,
                                   .host_id = options.host_id,
                                   .on_warning = [](absl::string_view) {}});
    if (client.ok()) return *std::move(client);
  }
  return nullptr;
}

}  // namespace

int RunWorker(const WorkerOptions& options) {
  const dev::StopFd stop;
  const UniqueFd records(
      open(options.records_path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  MP_CHECK(records.valid(), "no file for the records", options.records_path);
  const std::unique_ptr<Client> client = ConnectAtLast(options, stop);
  if (client == nullptr) return 0;
  if (options.verifies) {
    Caller(*client, options, 0, records.get()).Verify();
    return 0;
  }
  std::atomic<bool> is_stopping = false;
  std::vector<std::thread> threads;
  for (uint64_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] { Caller(*client, options, i, records.get()).Work(is_stopping); });
  }
  pollfd wait = {stop.fd(), POLLIN, 0};
  while (poll(&wait, 1, -1) <= 0) {
  }
  is_stopping = true;
  for (std::thread& thread : threads) thread.join();
  return 0;
}

}  // namespace moonpool::chaos
