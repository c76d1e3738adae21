#include "transport/stream/stream_drivers.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <utility>

#include "common/check.h"
#include "transport/stream/socket.h"

namespace moonpool::transport {
namespace {

// No single wait is longer: a wake-up that gets lost costs this much.
constexpr int kWaitMaxMillis = 100;

void Signal(int fd) {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(fd, &one, sizeof(one));
}

void Drain(int fd) {
  uint64_t count;
  [[maybe_unused]] const ssize_t got = read(fd, &count, sizeof(count));
}

}  // namespace

// What the two threads share: the stream goes over with `stream_`, and comes back with `is_over_`.
class StreamDrivers::Driver {
 public:
  Driver()
      : wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        over_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
  ~Driver() {
    if (!is_running_) return;
    is_stopping_.store(true, std::memory_order_release);
    Signal(wake_.get());
    pthread_join(thread_, nullptr);
  }

  // False: the system gives no thread or descriptors.
  bool Start() {
    if (!wake_.valid() || !over_.valid()) return false;
    is_running_ = pthread_create(&thread_, nullptr, Main, this) == 0;
    return is_running_;
  }
  // In a child of the process that had the thread.
  void Forsake() { is_running_ = false; }

  void Take(ClientStream& stream) {
    is_over_.store(false, std::memory_order_relaxed);
    is_recalled_.store(false, std::memory_order_relaxed);
    stream_.store(&stream, std::memory_order_release);
    Signal(wake_.get());
  }
  bool is_over() const { return is_over_.load(std::memory_order_acquire); }
  int over_fd() const { return over_.get(); }
  uint64_t moves() const { return moves_.load(std::memory_order_relaxed); }
  uint64_t seen_moves = 0;  // of the borrower

  void Recall() {
    is_recalled_.store(true, std::memory_order_release);
    if (!is_over()) Signal(wake_.get());
    while (!is_over()) {
      pollfd wait{over_.get(), POLLIN, 0};
      poll(&wait, 1, kWaitMaxMillis);
    }
    Drain(over_.get());
  }

 private:
  static void* Main(void* driver) {
    static_cast<Driver*>(driver)->Run();
    return nullptr;
  }

  void Run() {
    pthread_setname_np(pthread_self(), "mp-stream");
    std::vector<pollfd> waits;
    while (!is_stopping_.load(std::memory_order_acquire)) {
      ClientStream* const stream = stream_.load(std::memory_order_acquire);
      waits.assign(1, {wake_.get(), POLLIN, 0});
      if (stream != nullptr && Drive(*stream, waits)) {
        stream_.store(nullptr, std::memory_order_relaxed);
        is_over_.store(true, std::memory_order_release);
        Signal(over_.get());
        continue;
      }
      poll(waits.data(), waits.size(), stream != nullptr ? kWaitMaxMillis : -1);
      Drain(wake_.get());
    }
  }

  // False: it waits. True: the loan is over.
  bool Drive(ClientStream& stream, std::vector<pollfd>& waits) {
    while (!is_recalled_.load(std::memory_order_acquire)) {
      const bool has_moved = stream.Progress();
      if (has_moved) moves_.fetch_add(1, std::memory_order_relaxed);
      if (stream.outstanding() == 0 || !stream.failure().ok()) return true;
      if (has_moved) continue;
      stream.AppendWaits(&waits);
      return false;
    }
    return true;
  }

  const UniqueFd wake_;
  const UniqueFd over_;
  std::atomic<ClientStream*> stream_{nullptr};
  std::atomic<bool> is_over_{true};
  std::atomic<bool> is_recalled_{false};
  std::atomic<bool> is_stopping_{false};
  std::atomic<uint64_t> moves_{0};
  pthread_t thread_ = {};  // std::thread ends the process where the system has no more
  bool is_running_ = false;
};

StreamDrivers::StreamDrivers(size_t threads) : threads_max_(threads), owner_(getpid()) {}

StreamDrivers::~StreamDrivers() {
  absl::MutexLock lock(&mutex_);
  if (getpid() != owner_) {
    for (auto& driver : drivers_) driver->Forsake();
    return;
  }
  MP_CHECK(free_.size() == drivers_.size(), "a stream is still lent", free_.size());
}

std::optional<StreamDrivers::Loan> StreamDrivers::Lend(ClientStream& stream) {
  if (threads_max_ == 0 || getpid() != owner_) return std::nullopt;
  Driver* const driver = TakeFree();
  if (driver == nullptr) return std::nullopt;
  driver->Take(stream);
  return Loan(this, driver);
}

StreamDrivers::Driver* StreamDrivers::TakeFree() {
  absl::MutexLock lock(&mutex_);
  if (free_.empty() && drivers_.size() < threads_max_) {
    auto started = std::make_unique<Driver>();
    if (!started->Start()) return nullptr;
    free_.push_back(started.get());
    drivers_.push_back(std::move(started));
  }
  if (free_.empty()) return nullptr;
  Driver* const driver = free_.back();
  free_.pop_back();
  return driver;
}

void StreamDrivers::GiveBack(Driver* driver) {
  absl::MutexLock lock(&mutex_);
  free_.push_back(driver);
}

StreamDrivers::Loan::Loan(Loan&& other) noexcept
    : drivers_(other.drivers_), driver_(std::exchange(other.driver_, nullptr)) {}

StreamDrivers::Loan::~Loan() {
  if (driver_ == nullptr) return;
  driver_->Recall();
  drivers_->GiveBack(driver_);
}

bool StreamDrivers::Loan::is_over() const { return driver_->is_over(); }
int StreamDrivers::Loan::fd() const { return driver_->over_fd(); }

bool StreamDrivers::Loan::TakeMoved() {
  return std::exchange(driver_->seen_moves, driver_->moves()) != driver_->moves();
}

}  // namespace moonpool::transport
