// A message that stands within another one, for who reads the other one without protobuf
// (common/wire/wire_reader.h).
#pragma once

#include <google/protobuf/message_lite.h>

#include "absl/strings/string_view.h"

namespace moonpool {

// As protobuf reads a field of that type: what the message had is kept where the bytes say nothing
// else. False: they are no message; it has then read a part of them.
bool MergeMessage(absl::string_view bytes, google::protobuf::MessageLite& message);

}  // namespace moonpool
