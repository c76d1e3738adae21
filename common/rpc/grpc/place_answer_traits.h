// How gRPC receives an answer about places: straight from its bytes.
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "common/rpc/grpc/received_bytes.h"
#include "common/rpc/place_answers.h"

// For calls whose answer is one: grpc::TemplatedGenericStub<v1::LocateRequest, LocateAnswer>.
template <moonpool::IsPlacesAnswer Answer>
class grpc::SerializationTraits<Answer, void> {
 public:
  // INTERNAL: these are no such message.
  static Status Deserialize(ByteBuffer* received, Answer* answer) {
    bool is_read = false;
    const Status taken = moonpool::TakeBytes(
        *received, [&](absl::string_view bytes) { is_read = ReadAnswer(bytes, *answer); });
    if (taken.ok() && !is_read) return Status(StatusCode::INTERNAL, "the answer cannot be read");
    return taken;
  }
};
