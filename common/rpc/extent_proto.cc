#include "common/rpc/extent_proto.h"

namespace moonpool {

void ExtentToProto(const Extent& extent, v1::Extent* proto) {
  proto->set_segment(extent.segment.value);
  proto->set_offset(extent.offset);
  proto->set_length(extent.length);
}

Extent ExtentFromProto(const v1::Extent& proto) {
  return {SegmentId{proto.segment()}, proto.offset(), proto.length()};
}

}  // namespace moonpool
