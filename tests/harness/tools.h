// Programs of the system that tests and scenarios run.
#pragma once

#include <string>

namespace moonpool::harness {

// The path of a program by its name; empty when it is not installed.
std::string PathOfTool(const std::string& name);

}  // namespace moonpool::harness
