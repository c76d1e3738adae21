// Cancellation of calls in flight.
//
//   CancelSource source;                       // kept by whoever may change their mind
//   client.GetMany(items, {.cancel = source.token()});   // on another thread:
//   source.Cancel();
#pragma once

#include <functional>
#include <memory>

namespace moonpool {

namespace cancel_internal {
struct State;
}

// Keeps a callback registered while it lives; when its destructor has returned the callback is
// not running and will not run. Move-only.
class CancelCallback {
 public:
  CancelCallback() = default;
  CancelCallback(std::shared_ptr<cancel_internal::State> state, uint64_t id)
      : state_(std::move(state)), id_(id) {}
  CancelCallback(CancelCallback&& other) noexcept { *this = std::move(other); }
  CancelCallback& operator=(CancelCallback&& other) noexcept;
  ~CancelCallback();

 private:
  std::shared_ptr<cancel_internal::State> state_;
  uint64_t id_ = 0;
};

// Borrowed by calls; cheap to copy. A default token is never cancelled. Thread-safe.
class CancelToken {
 public:
  CancelToken() = default;
  explicit CancelToken(std::shared_ptr<cancel_internal::State> state) : state_(std::move(state)) {}

  bool cancelled() const;
  // Runs `callback` at most once, on the thread that cancels, or at once when it already
  // happened. It must not block.
  [[nodiscard]] CancelCallback OnCancel(std::function<void()> callback) const;
  // Readable (as an eventfd) once cancelled, for poll(); -1 for a token that is never cancelled.
  // Owned by the source's state.
  int fd() const;

 private:
  std::shared_ptr<cancel_internal::State> state_;
};

// Thread-safe.
class CancelSource {
 public:
  CancelSource();
  void Cancel();
  CancelToken token() const { return CancelToken(state_); }

 private:
  std::shared_ptr<cancel_internal::State> state_;
};

}  // namespace moonpool
