// A function with a stack of its own, run on the caller's thread in slices: who resumes it goes on
// when it suspends or ends. A switch asks no scheduler, so what runs is the same, and as fast, on a
// machine that has other things to do.
#pragma once

#include <ucontext.h>

#include <cstddef>
#include <functional>

namespace moonpool::sim {

// Used by one thread. The sanitizers are told of every switch.
class Fiber {
 public:
  explicit Fiber(std::function<void()> body);
  ~Fiber();  // it must have ended, or never begun

  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Runs it until it suspends or ends. Not from within itself, nor after its end.
  void Resume();
  // From within it.
  void Suspend();

  bool has_ended() const { return has_ended_; }

 private:
  // Memory that faults below its end instead of running into what lies there.
  class Stack {
   public:
    Stack();
    ~Stack();
    Stack(const Stack&) = delete;
    Stack& operator=(const Stack&) = delete;

    std::byte* begin() const { return mapped_ + guard_bytes_; }
    size_t size() const;

   private:
    const size_t guard_bytes_;
    std::byte* mapped_;
  };

  static void Main(unsigned high, unsigned low);  // makecontext passes ints
  void Enter();
  void Leave(bool for_good);

  std::function<void()> body_;
  Stack stack_;
  ucontext_t own_ = {};
  ucontext_t caller_ = {};
  bool has_begun_ = false;
  bool has_ended_ = false;

  // What the sanitizers know the two stacks by; unused without them.
  void* own_fake_stack_ = nullptr;
  const void* caller_stack_ = nullptr;
  size_t caller_stack_bytes_ = 0;
  void* own_tsan_ = nullptr;
  void* caller_tsan_ = nullptr;
};

}  // namespace moonpool::sim
