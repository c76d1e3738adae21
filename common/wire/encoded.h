// A message as it goes over the wire, for those that are read and written without an object of them
// (wire_reader.h, wire_writer.h). The type says what the bytes are, or claim to be.
#pragma once

#include <string>

namespace moonpool {

template <typename Message>
struct Encoded {
  std::string bytes;

  Encoded() = default;
  // For those who have the object: tests, tools.
  Encoded(const Message& message) : bytes(message.SerializeAsString()) {}
};

}  // namespace moonpool
