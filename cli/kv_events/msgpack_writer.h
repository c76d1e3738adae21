// The few forms of MessagePack (https://github.com/msgpack/msgpack/blob/master/spec.md) that KV
// events are made of, each in its shortest form, as msgspec writes them. Nothing is read here, so
// there is nothing to parse.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"

namespace moonpool::cli {

// The caller keeps the promises: an array of n is followed by n values, a map of n by 2n.
class MsgpackWriter {
 public:
  void Array(size_t n) { Sized(n, {0x90, 15, 0, 0xdc, 0xdd}); }
  void Map(size_t n) { Sized(n, {0x80, 15, 0, 0xde, 0xdf}); }
  void Text(absl::string_view text) {
    Sized(text.size(), {0xa0, 31, 0xd9, 0xda, 0xdb});
    out_.append(text.data(), text.size());
  }
  void Bytes(absl::string_view bytes) {
    Sized(bytes.size(), {0, -1, 0xc4, 0xc5, 0xc6});
    out_.append(bytes.data(), bytes.size());
  }
  void Number(uint64_t number);
  void Real(double real);
  void Nil() { out_.push_back(static_cast<char>(0xc0)); }

  // Values that were written before, by another one.
  void Encoded(absl::string_view bytes) { out_.append(bytes.data(), bytes.size()); }

  std::string Take() { return std::exchange(out_, {}); }

 private:
  // First bytes of something with a length: with the length in it up to `fix_max` (-1: there is no
  // such form), and with one of 8, 16 or 32 bits behind it (0: there is no such form).
  struct Heads {
    uint8_t fix;
    int fix_max;
    uint8_t of8;
    uint8_t of16;
    uint8_t of32;
  };
  void Sized(size_t n, const Heads& heads);
  // Big-endian.
  void Append(uint64_t number, int bytes);

  std::string out_;
};

}  // namespace moonpool::cli
