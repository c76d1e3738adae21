#include "common/random.h"

#include <sys/random.h>

#include "common/check.h"

namespace moonpool {

uint64_t EntropySeed() {
  uint64_t seed = 0;
  const ssize_t got = getrandom(&seed, sizeof(seed), 0);
  MP_CHECK(got == static_cast<ssize_t>(sizeof(seed)), "getrandom failed");
  return seed;
}

}  // namespace moonpool
