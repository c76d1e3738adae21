// Linked into every program of the tsan preset. Debian's Abseil is compiled without
// ThreadSanitizer, which therefore sees absl::Mutex neither lock nor unlock and calls every field
// it guards a race. The functions below take the place of the library's (a program's own definition
// wins over a shared library's, for gRPC's calls too), tell ThreadSanitizer, and call the real
// ones. Between a pre and its post ThreadSanitizer looks away, as it must while Abseil evaluates
// the Conditions of others.

#include <dlfcn.h>
#include <sanitizer/tsan_interface.h>

#include <type_traits>

#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"

namespace {

// The library's function of the same mangled name. A member function is called through a plain
// pointer whose first parameter is `this`, as the ABI has it.
template <typename Function>
Function* Next(const char* symbol) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, symbol));
}

// Abseil's locking functions call one another through the same symbols: only the outermost tells.
thread_local bool is_telling = false;

class Told {
 public:
  Told() : was_telling_(is_telling) { is_telling = true; }
  ~Told() { is_telling = was_telling_; }
  bool is_outermost() const { return !was_telling_; }

 private:
  const bool was_telling_;
};

// Around a call that returns with the mutex locked.
template <typename Call>
auto Locking(absl::Mutex* mutex, unsigned flags, Call call) {
  const Told told;
  if (told.is_outermost()) __tsan_mutex_pre_lock(mutex, flags);
  if constexpr (std::is_void_v<decltype(call())>) {
    call();
    if (told.is_outermost()) __tsan_mutex_post_lock(mutex, flags, 0);
  } else {
    const bool result = call();
    const bool has_failed = (flags & __tsan_mutex_try_lock) != 0 && !result;
    const unsigned outcome = has_failed ? flags | __tsan_mutex_try_lock_failed : flags;
    if (told.is_outermost()) __tsan_mutex_post_lock(mutex, outcome, 0);
    return result;
  }
}

// Around a call that returns with the mutex unlocked.
template <typename Call>
void Unlocking(absl::Mutex* mutex, unsigned flags, Call call) {
  const Told told;
  if (told.is_outermost()) __tsan_mutex_pre_unlock(mutex, flags);
  call();
  if (told.is_outermost()) __tsan_mutex_post_unlock(mutex, flags);
}

// Around a call that unlocks, waits and locks again.
template <typename Call>
auto Waiting(absl::Mutex* mutex, Call call) {
  Unlocking(mutex, 0, [] {});
  return Locking(mutex, 0, call);
}

}  // namespace

#define REAL(symbol, ...) (*Next<__VA_ARGS__>("_ZN4absl7debian3" symbol))

namespace absl {
ABSL_NAMESPACE_BEGIN

void Mutex::Lock() {
  static auto& real = REAL("5Mutex4LockEv", void(Mutex*));
  Locking(this, 0, [&] { return real(this); });
}

void Mutex::Unlock() {
  static auto& real = REAL("5Mutex6UnlockEv", void(Mutex*));
  Unlocking(this, 0, [&] { real(this); });
}

bool Mutex::TryLock() {
  static auto& real = REAL("5Mutex7TryLockEv", bool(Mutex*));
  return Locking(this, __tsan_mutex_try_lock, [&] { return real(this); });
}

void Mutex::ReaderLock() {
  static auto& real = REAL("5Mutex10ReaderLockEv", void(Mutex*));
  Locking(this, __tsan_mutex_read_lock, [&] { return real(this); });
}

void Mutex::ReaderUnlock() {
  static auto& real = REAL("5Mutex12ReaderUnlockEv", void(Mutex*));
  Unlocking(this, __tsan_mutex_read_lock, [&] { real(this); });
}

bool Mutex::ReaderTryLock() {
  static auto& real = REAL("5Mutex13ReaderTryLockEv", bool(Mutex*));
  return Locking(this, __tsan_mutex_read_lock | __tsan_mutex_try_lock, [&] { return real(this); });
}

void Mutex::LockWhen(const Condition& condition) {
  static auto& real = REAL("5Mutex8LockWhenERKNS0_9ConditionE", void(Mutex*, const Condition&));
  Locking(this, 0, [&] { return real(this, condition); });
}

bool Mutex::LockWhenWithTimeout(const Condition& condition, absl::Duration timeout) {
  static auto& real = REAL("5Mutex19LockWhenWithTimeoutERKNS0_9ConditionENS0_8DurationE",
                           bool(Mutex*, const Condition&, absl::Duration));
  return Locking(this, 0, [&] { return real(this, condition, timeout); });
}

bool Mutex::LockWhenWithDeadline(const Condition& condition, absl::Time deadline) {
  static auto& real = REAL("5Mutex20LockWhenWithDeadlineERKNS0_9ConditionENS0_4TimeE",
                           bool(Mutex*, const Condition&, absl::Time));
  return Locking(this, 0, [&] { return real(this, condition, deadline); });
}

void Mutex::ReaderLockWhen(const Condition& condition) {
  static auto& real =
      REAL("5Mutex14ReaderLockWhenERKNS0_9ConditionE", void(Mutex*, const Condition&));
  Locking(this, __tsan_mutex_read_lock, [&] { return real(this, condition); });
}

void Mutex::Await(const Condition& condition) {
  static auto& real = REAL("5Mutex5AwaitERKNS0_9ConditionE", void(Mutex*, const Condition&));
  Waiting(this, [&] { return real(this, condition); });
}

bool Mutex::AwaitWithTimeout(const Condition& condition, absl::Duration timeout) {
  static auto& real = REAL("5Mutex16AwaitWithTimeoutERKNS0_9ConditionENS0_8DurationE",
                           bool(Mutex*, const Condition&, absl::Duration));
  return Waiting(this, [&] { return real(this, condition, timeout); });
}

bool Mutex::AwaitWithDeadline(const Condition& condition, absl::Time deadline) {
  static auto& real = REAL("5Mutex17AwaitWithDeadlineERKNS0_9ConditionENS0_4TimeE",
                           bool(Mutex*, const Condition&, absl::Time));
  return Waiting(this, [&] { return real(this, condition, deadline); });
}

void CondVar::Wait(Mutex* mutex) {
  static auto& real = REAL("7CondVar4WaitEPNS0_5MutexE", void(CondVar*, Mutex*));
  Waiting(mutex, [&] { return real(this, mutex); });
}

bool CondVar::WaitWithTimeout(Mutex* mutex, absl::Duration timeout) {
  static auto& real = REAL("7CondVar15WaitWithTimeoutEPNS0_5MutexENS0_8DurationE",
                           bool(CondVar*, Mutex*, absl::Duration));
  return Waiting(mutex, [&] { return real(this, mutex, timeout); });
}

bool CondVar::WaitWithDeadline(Mutex* mutex, absl::Time deadline) {
  static auto& real =
      REAL("7CondVar16WaitWithDeadlineEPNS0_5MutexENS0_4TimeE", bool(CondVar*, Mutex*, absl::Time));
  return Waiting(mutex, [&] { return real(this, mutex, deadline); });
}

// What follows has a fast path that takes no lock.

void Notification::Notify() {
  static auto& real = REAL("12Notification6NotifyEv", void(Notification*));
  __tsan_release(this);
  real(this);
}

void Notification::WaitForNotification() const {
  static auto& real =
      *Next<void(const Notification*)>("_ZNK4absl7debian312Notification19WaitForNotificationEv");
  real(this);
  __tsan_acquire(const_cast<Notification*>(this));
}

bool Notification::WaitForNotificationWithTimeout(absl::Duration timeout) const {
  static auto& real = *Next<bool(const Notification*, absl::Duration)>(
      "_ZNK4absl7debian312Notification30WaitForNotificationWithTimeoutENS0_8DurationE");
  const bool is_notified = real(this, timeout);
  if (is_notified) __tsan_acquire(const_cast<Notification*>(this));
  return is_notified;
}

bool Notification::WaitForNotificationWithDeadline(absl::Time deadline) const {
  static auto& real = *Next<bool(const Notification*, absl::Time)>(
      "_ZNK4absl7debian312Notification31WaitForNotificationWithDeadlineENS0_4TimeE");
  const bool is_notified = real(this, deadline);
  if (is_notified) __tsan_acquire(const_cast<Notification*>(this));
  return is_notified;
}

bool BlockingCounter::DecrementCount() {
  static auto& real = REAL("15BlockingCounter14DecrementCountEv", bool(BlockingCounter*));
  __tsan_release(this);
  return real(this);
}

void BlockingCounter::Wait() {
  static auto& real = REAL("15BlockingCounter4WaitEv", void(BlockingCounter*));
  real(this);
  __tsan_acquire(this);
}

ABSL_NAMESPACE_END
}  // namespace absl
