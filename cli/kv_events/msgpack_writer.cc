#include "cli/kv_events/msgpack_writer.h"

#include <cstring>

#include "common/check.h"

namespace moonpool::cli {

void MsgpackWriter::Append(uint64_t number, int bytes) {
  for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8) {
    out_.push_back(static_cast<char>(number >> shift));
  }
}

void MsgpackWriter::Sized(size_t n, const Heads& heads) {
  if (heads.fix_max >= 0 && n <= static_cast<size_t>(heads.fix_max))
    return Append(heads.fix | n, 1);
  if (heads.of8 != 0 && n <= 0xff) {
    Append(heads.of8, 1);
    return Append(n, 1);
  }
  if (n <= 0xffff) {
    Append(heads.of16, 1);
    return Append(n, 2);
  }
  MP_CHECK(n <= 0xffffffff, "more than MessagePack can say", n);
  Append(heads.of32, 1);
  Append(n, 4);
}

void MsgpackWriter::Number(uint64_t number) {
  if (number <= 0x7f) return Append(number, 1);
  const int bytes = number <= 0xff ? 1 : number <= 0xffff ? 2 : number <= 0xffffffff ? 4 : 8;
  const uint8_t head = bytes == 1 ? 0xcc : bytes == 2 ? 0xcd : bytes == 4 ? 0xce : 0xcf;
  Append(head, 1);
  Append(number, bytes);
}

void MsgpackWriter::Real(double real) {
  uint64_t bits = 0;
  static_assert(sizeof(bits) == sizeof(real));
  std::memcpy(&bits, &real, sizeof(bits));
  Append(0xcb, 1);
  Append(bits, 8);
}

}  // namespace moonpool::cli
