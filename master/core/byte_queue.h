// Bytes that go in the order in which they came, in pieces that stay where they are. In a queue of
// steady length nothing is allocated.
//
//   ByteQueue queue;
//   char* piece = queue.Push(n);   // until it is popped
//   queue.Pop(n);                  // the oldest, of that size
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <memory>
#include <utility>

namespace moonpool::master {

class ByteQueue {
 public:
  char* Push(size_t bytes) {
    if (chunks_.empty() || chunks_.back().size - chunks_.back().pushed < bytes) Grow(bytes);
    Chunk& last = chunks_.back();
    last.pushed += bytes;
    return last.bytes.get() + (last.pushed - bytes);
  }
  void Pop(size_t bytes) {
    Chunk& first = chunks_.front();
    first.popped += bytes;
    if (first.popped < first.pushed) return;
    if (chunks_.size() == 1) {
      first.pushed = first.popped = 0;
      return;
    }
    if (first.size == kChunkBytes) spare_ = std::move(first.bytes);
    chunks_.pop_front();
  }

 private:
  static constexpr size_t kChunkBytes = 64 << 10;

  struct Chunk {
    std::unique_ptr<char[]> bytes;
    size_t size = 0;
    size_t pushed = 0;
    size_t popped = 0;
  };

  // What is left of the last chunk stays empty.
  void Grow(size_t bytes) {
    const size_t size = std::max(bytes, kChunkBytes);
    std::unique_ptr<char[]> room = size == kChunkBytes ? std::exchange(spare_, nullptr) : nullptr;
    if (room == nullptr) room = std::make_unique_for_overwrite<char[]>(size);
    chunks_.push_back({.bytes = std::move(room), .size = size});
  }

  std::deque<Chunk> chunks_;
  std::unique_ptr<char[]> spare_;  // one, of kChunkBytes
};

}  // namespace moonpool::master
