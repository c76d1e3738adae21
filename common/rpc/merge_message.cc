#include "common/rpc/merge_message.h"

#include <google/protobuf/io/coded_stream.h>

namespace moonpool {
namespace {

// protobuf reads 100 messages deep; those around this one count.
constexpr int kDepthMax = 90;

}  // namespace

bool MergeMessage(absl::string_view bytes, google::protobuf::MessageLite& message) {
  google::protobuf::io::CodedInputStream in(reinterpret_cast<const uint8_t*>(bytes.data()),
                                            static_cast<int>(bytes.size()));
  in.SetRecursionLimit(kDepthMax);
  return message.MergeFromCodedStream(&in) && in.ConsumedEntireMessage();
}

}  // namespace moonpool
