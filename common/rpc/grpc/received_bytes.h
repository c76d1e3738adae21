// The bytes of a message that has arrived.
#pragma once

#include <grpcpp/impl/codegen/serialization_traits.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>
#include <grpcpp/support/status.h>

#include <vector>

#include "absl/strings/string_view.h"

namespace moonpool {

// Calls `take` with them, in one piece as they mostly have come, and frees them.
template <typename Take>
grpc::Status TakeBytes(grpc::ByteBuffer& received, Take take) {
  grpc::Slice piece;
  if (!received.TrySingleSlice(&piece).ok()) {
    const grpc::Status joined = received.DumpToSingleSlice(&piece);
    if (!joined.ok()) return joined;
  }
  take(absl::string_view(reinterpret_cast<const char*>(piece.begin()), piece.size()));
  received.Clear();
  return grpc::Status::OK;
}

}  // namespace moonpool
