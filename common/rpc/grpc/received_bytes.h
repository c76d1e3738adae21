// The bytes of a message that has arrived.
#pragma once

#include <grpcpp/impl/codegen/serialization_traits.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>
#include <grpcpp/support/status.h>

#include "absl/strings/string_view.h"

namespace moonpool {

// Calls `take` with them, in one piece as they mostly have come, and frees them.
template <typename Take>
grpc::Status TakeBytes(grpc::ByteBuffer& received, Take take) {
  grpc::Slice piece;  // keeps them while it lives
  grpc::Status status = received.TrySingleSlice(&piece);
  if (!status.ok()) status = received.DumpToSingleSlice(&piece);
  received.Clear();
  if (!status.ok()) return status;
  take(absl::string_view(reinterpret_cast<const char*>(piece.begin()), piece.size()));
  return grpc::Status::OK;
}

}  // namespace moonpool
