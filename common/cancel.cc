#include "common/cancel.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"

namespace moonpool {
namespace cancel_internal {

struct State {
  // A source that cannot get a descriptor still cancels; only poll() does not notice at once.
  const int event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  absl::Mutex mu;
  bool cancelled ABSL_GUARDED_BY(mu) = false;
  uint64_t next_id ABSL_GUARDED_BY(mu) = 1;
  absl::flat_hash_map<uint64_t, std::function<void()>> callbacks ABSL_GUARDED_BY(mu);

  ~State() {
    if (event_fd >= 0) close(event_fd);
  }
};

}  // namespace cancel_internal

CancelCallback& CancelCallback::operator=(CancelCallback&& other) noexcept {
  std::swap(state_, other.state_);
  std::swap(id_, other.id_);
  return *this;
}

CancelCallback::~CancelCallback() {
  if (state_ == nullptr) return;
  // Cancel() runs callbacks under the lock, so having it means that none is running.
  absl::MutexLock lock(&state_->mu);
  state_->callbacks.erase(id_);
}

bool CancelToken::cancelled() const {
  if (state_ == nullptr) return false;
  absl::MutexLock lock(&state_->mu);
  return state_->cancelled;
}

CancelCallback CancelToken::OnCancel(std::function<void()> callback) const {
  if (state_ == nullptr) return CancelCallback();
  uint64_t id = 0;
  {
    absl::MutexLock lock(&state_->mu);
    if (!state_->cancelled) {
      id = state_->next_id++;
      state_->callbacks.emplace(id, std::move(callback));
      return CancelCallback(state_, id);
    }
  }
  callback();
  return CancelCallback();
}

int CancelToken::fd() const { return state_ == nullptr ? -1 : state_->event_fd; }

CancelSource::CancelSource() : state_(std::make_shared<cancel_internal::State>()) {}

void CancelSource::Cancel() {
  absl::MutexLock lock(&state_->mu);
  if (state_->cancelled) return;
  state_->cancelled = true;
  if (state_->event_fd >= 0) {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = write(state_->event_fd, &one, sizeof(one));
  }
  for (auto& [id, callback] : state_->callbacks) callback();
}

}  // namespace moonpool
