// How gRPC sends and receives an Encoded message: its bytes are what goes over the wire.
#pragma once

#include "absl/strings/string_view.h"
#include "common/rpc/grpc/received_bytes.h"
#include "common/wire/encoded.h"

template <typename Message>
class grpc::SerializationTraits<moonpool::Encoded<Message>, void> {
 public:
  static Status Serialize(const moonpool::Encoded<Message>& message, ByteBuffer* sent,
                          bool* owns_buffer) {
    const Slice slice(message.bytes);
    ByteBuffer buffer(&slice, 1);
    sent->Swap(&buffer);
    *owns_buffer = true;
    return Status::OK;
  }

  static Status Deserialize(ByteBuffer* received, moonpool::Encoded<Message>* message) {
    return moonpool::TakeBytes(*received, [message](absl::string_view bytes) {
      message->bytes.assign(bytes.data(), bytes.size());
    });
  }
};
