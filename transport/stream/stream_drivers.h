// Threads that drive streams beside the one that uses the channel: a large batch over several
// streams moves as fast as there are threads at its ends, since the copy out of the socket and the
// checksum are what takes the time.
//
//   std::optional<StreamDrivers::Loan> loan = drivers.Lend(stream);
//   ... poll(loan->fd()) ... loan->is_over() ...
//   loan.reset();                      // the stream is the caller's again
//
// A stream that is lent is not touched by its owner, and neither are its ops, nor their buffers.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "transport/stream/client_stream.h"

namespace moonpool::transport {

class StreamDrivers {
  class Driver;

 public:
  // The threads, named mp-stream, start with the loans that need them.
  explicit StreamDrivers(size_t threads);
  // No loan is out.
  ~StreamDrivers();
  StreamDrivers(const StreamDrivers&) = delete;
  StreamDrivers& operator=(const StreamDrivers&) = delete;

  // Of one thread and one stream. Move-only; used by one thread at a time.
  class Loan {
   public:
    Loan(StreamDrivers* drivers, Driver* driver) : drivers_(drivers), driver_(driver) {}
    Loan(Loan&& other) noexcept;
    Loan& operator=(Loan&&) = delete;
    // Takes the stream back, also one that is not done: waits for one Progress() of it at most.
    ~Loan();

    // The stream has nothing outstanding, or has failed.
    bool is_over() const;
    // Readable once the loan is over.
    int fd() const;
    // Whether anything was moved since this was asked last.
    bool TakeMoved();

   private:
    StreamDrivers* drivers_;
    Driver* driver_;  // nullptr: moved from
  };

  // nullopt when every thread is busy, cannot be started, or is gone (in a forked child). Borrows
  // the stream while the loan lives. Thread-safe.
  std::optional<Loan> Lend(ClientStream& stream);

 private:
  Driver* TakeFree();
  void GiveBack(Driver* driver);

  const size_t threads_max_;
  const pid_t owner_;  // threads do not follow into a child
  absl::Mutex mutex_;
  std::vector<std::unique_ptr<Driver>> drivers_ ABSL_GUARDED_BY(mutex_);
  std::vector<Driver*> free_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace moonpool::transport
