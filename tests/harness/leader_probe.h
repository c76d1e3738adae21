// Whether a master leads, as it says itself. (Everything else that asks masters follows the
// leader.)
#pragma once

#include <string>

#include "absl/time/time.h"

namespace moonpool::harness {

// False as well when it does not answer in time.
bool Leads(const std::string& master, absl::Duration timeout);

}  // namespace moonpool::harness
