// Who runs the simulated pool: has nodes forgotten and drained, and asks again until a master has
// answered.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "absl/strings/string_view.h"
#include "master/core/core.h"
#include "tests/sim/sim_masters.h"
#include "transport/sim/scheduler.h"

namespace moonpool::sim {

class SimOperator {
 public:
  // `violate` gets a sentence that says what is wrong.
  SimOperator(Scheduler& scheduler, SimMasters& masters,
              std::function<void(absl::string_view)> violate)
      : scheduler_(scheduler), masters_(masters), violate_(std::move(violate)) {}

  // A node that is gone for good; its drain ends with it.
  void Forget(const std::string& name);
  void Drain(const std::string& name) { Want(name, true); }
  void CallOff(const std::string& name) { Want(name, false); }
  // Nodes that are drained, or may still be.
  int drained() const;
  // Whether a drain or its end was asked for, whatever became of it.
  bool has_asked(const std::string& name) const { return wishes_.contains(name); }

  // The master is another one, without a meta store: it knows nothing of drains.
  void AllIsForgotten();

  // What has been answered holds at this leader, which knows all nodes: "" or what does not.
  std::string Check(const master::Core& leader, absl::Time now) const;
  // What was answered last, where nothing was asked for since.
  enum class Drained : uint8_t { kYes, kNo, kOpen };
  Drained IsDrained(const std::string& name) const;

 private:
  struct Wish {
    bool is_drained = false;
    bool is_answered = false;
    uint64_t number = 0;  // answers to older ones are void
  };
  void Want(const std::string& name, bool is_drained);
  void Ask(const std::string& name, uint64_t number);
  // Answers that a fault explains; the operator tries again.
  static bool IsExcused(const absl::Status& status);

  Scheduler& scheduler_;
  SimMasters& masters_;
  const std::function<void(absl::string_view)> violate_;
  std::map<std::string, Wish> wishes_;
  uint64_t wishes_made_ = 0;
};

}  // namespace moonpool::sim
