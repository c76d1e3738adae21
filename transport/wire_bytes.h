// Little-endian integers in byte buffers, for the formats of this folder.
#pragma once

#include <bit>
#include <cstddef>
#include <cstring>
#include <type_traits>

namespace moonpool::transport {

static_assert(std::endian::native == std::endian::little,
              "formats are little-endian and stored without conversion");

template <typename T>
T LoadAs(const std::byte* from) {
  static_assert(std::is_integral_v<T>);
  T value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

template <typename T>
void StoreAs(std::byte* to, T value) {
  static_assert(std::is_integral_v<T>);
  std::memcpy(to, &value, sizeof(value));
}

}  // namespace moonpool::transport
