// In all builds but one.
#include "tests/sim/mutation.h"

namespace moonpool::sim {

void MutationCheck::AddTo(CLI::App&) {}

std::optional<int> MutationCheck::Run() { return std::nullopt; }

}  // namespace moonpool::sim
