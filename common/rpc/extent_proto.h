// Extent <-> moonpool.v1.Extent. Any numbers: whoever has use for them looks at them.
#pragma once

#include "common/types.h"
#include "moonpool/v1/common.pb.h"

namespace moonpool {

void ExtentToProto(const Extent& extent, v1::Extent* proto);
Extent ExtentFromProto(const v1::Extent& proto);

}  // namespace moonpool
