// The mutation check: does anybody notice when a guard (common/guard.h) is off? In a build of the
// preset `mutation` the simulator has two options more:
//
//   moonpool-sim --without checksum --seed 10      a run without it
//   moonpool-sim --mutations mutations.txt         every line of the list, with and without
//
// Elsewhere (no_mutation.cc) there is nothing to switch and nothing is added.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace moonpool::sim {

class MutationCheck {
 public:
  void AddTo(CLI::App& app);
  // After the command line is parsed. The exit code, where the table was asked for, or something
  // is wrong; otherwise the guards that are to be off are so from now on.
  std::optional<int> Run();

 private:
  std::vector<std::string> without_;
  std::string list_;
  std::shared_ptr<void> guards_off_;
};

}  // namespace moonpool::sim
