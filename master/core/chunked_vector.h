// A vector in chunks: growth copies nothing, elements never move, memory goes back when it shrinks.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace moonpool::master {

template <typename T, size_t kChunkSize = 4096>
class ChunkedVector {
 public:
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T& operator[](size_t i) { return chunks_[i / kChunkSize][i % kChunkSize]; }
  const T& operator[](size_t i) const { return chunks_[i / kChunkSize][i % kChunkSize]; }
  T& back() { return (*this)[size_ - 1]; }

  void push_back(T value) {
    if (size_ == chunks_.size() * kChunkSize) {
      chunks_.push_back(std::make_unique<T[]>(kChunkSize));
    }
    (*this)[size_++] = std::move(value);
  }
  void pop_back() {
    --size_;
    // One empty chunk is kept, so that growing and shrinking around a border costs nothing.
    if (size_ + 2 * kChunkSize <= chunks_.size() * kChunkSize) chunks_.pop_back();
  }

 private:
  std::vector<std::unique_ptr<T[]>> chunks_;
  size_t size_ = 0;
};

}  // namespace moonpool::master
