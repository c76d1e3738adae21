#include "transport/sim/fiber.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <utility>

#include "absl/base/config.h"
#include "common/check.h"

#ifdef ABSL_HAVE_ADDRESS_SANITIZER
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef ABSL_HAVE_THREAD_SANITIZER
#include <sanitizer/tsan_interface.h>
#endif

namespace moonpool::sim {
namespace {

// Of address space: what is never touched costs nothing. Sanitizers make frames several times
// larger.
constexpr size_t kStackBytes = size_t{1} << 20;

// AddressSanitizer: before a switch to another stack, and after it on that stack.
void BeginSwitch(void** fake_stack, const void* to, size_t to_bytes) {
#ifdef ABSL_HAVE_ADDRESS_SANITIZER
  __sanitizer_start_switch_fiber(fake_stack, to, to_bytes);
#else
  (void)fake_stack, (void)to, (void)to_bytes;
#endif
}

void EndSwitch(void* fake_stack, const void** from, size_t* from_bytes) {
#ifdef ABSL_HAVE_ADDRESS_SANITIZER
  __sanitizer_finish_switch_fiber(fake_stack, from, from_bytes);
#else
  (void)fake_stack, (void)from, (void)from_bytes;
#endif
}

// ThreadSanitizer: a fiber is a thread to it, and a switch orders what is before and after it.
void* NewTsanFiber() {
#ifdef ABSL_HAVE_THREAD_SANITIZER
  return __tsan_create_fiber(0);
#else
  return nullptr;
#endif
}

void DeleteTsanFiber(void* fiber) {
#ifdef ABSL_HAVE_THREAD_SANITIZER
  __tsan_destroy_fiber(fiber);
#else
  (void)fiber;
#endif
}

void* CurrentTsanFiber() {
#ifdef ABSL_HAVE_THREAD_SANITIZER
  return __tsan_get_current_fiber();
#else
  return nullptr;
#endif
}

void SwitchTsanFiber(void* fiber) {
#ifdef ABSL_HAVE_THREAD_SANITIZER
  __tsan_switch_to_fiber(fiber, 0);
#else
  (void)fiber;
#endif
}

}  // namespace

Fiber::Stack::Stack()
    : guard_bytes_(static_cast<size_t>(sysconf(_SC_PAGESIZE))),
      mapped_(static_cast<std::byte*>(
          mmap(nullptr, guard_bytes_ + kStackBytes, PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0))) {
  MP_CHECK(mapped_ != MAP_FAILED, "no memory for a stack", errno);
  MP_CHECK(mprotect(mapped_, guard_bytes_, PROT_NONE) == 0, "no guard below a stack", errno);
}

Fiber::Stack::~Stack() { munmap(mapped_, guard_bytes_ + kStackBytes); }

size_t Fiber::Stack::size() const { return kStackBytes; }

Fiber::Fiber(std::function<void()> body) : body_(std::move(body)), own_tsan_(NewTsanFiber()) {
  MP_CHECK(getcontext(&own_) == 0, "no context for a fiber", errno);
  own_.uc_stack.ss_sp = stack_.begin();
  own_.uc_stack.ss_size = stack_.size();
  const auto self = reinterpret_cast<uintptr_t>(this);
  makecontext(&own_, reinterpret_cast<void (*)()>(&Fiber::Main), 2,
              static_cast<unsigned>(self >> 32), static_cast<unsigned>(self));
}

Fiber::~Fiber() {
  MP_CHECK(!has_begun_ || has_ended_, "a fiber is destroyed in the middle of its work");
  DeleteTsanFiber(own_tsan_);
}

void Fiber::Main(unsigned high, unsigned low) {
  const uintptr_t self = (uintptr_t{high} << 32) | low;
  reinterpret_cast<Fiber*>(self)->Enter();
}

void Fiber::Enter() {
  EndSwitch(nullptr, &caller_stack_, &caller_stack_bytes_);
  body_();
  has_ended_ = true;
  Leave(/*for_good=*/true);
}

void Fiber::Resume() {
  MP_CHECK(!has_ended_, "a fiber that has ended is resumed");
  has_begun_ = true;
  void* fake_stack = nullptr;
  caller_tsan_ = CurrentTsanFiber();
  BeginSwitch(&fake_stack, stack_.begin(), stack_.size());
  SwitchTsanFiber(own_tsan_);
  MP_CHECK(swapcontext(&caller_, &own_) == 0, "no switch to a fiber", errno);
  EndSwitch(fake_stack, nullptr, nullptr);
}

void Fiber::Suspend() {
  Leave(/*for_good=*/false);
  EndSwitch(own_fake_stack_, &caller_stack_, &caller_stack_bytes_);
}

void Fiber::Leave(bool for_good) {
  BeginSwitch(for_good ? nullptr : &own_fake_stack_, caller_stack_, caller_stack_bytes_);
  SwitchTsanFiber(caller_tsan_);
  MP_CHECK(swapcontext(&own_, &caller_) == 0, "no switch from a fiber", errno);
}

}  // namespace moonpool::sim
