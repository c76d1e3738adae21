#include "tests/sim/sim_operator.h"

#include <algorithm>
#include <memory>

#include "absl/strings/str_cat.h"
#include "common/error.h"
#include "common/version.h"

namespace moonpool::sim {
namespace {

constexpr absl::Duration kAskAgainAfter = absl::Seconds(1);
constexpr absl::Duration kPatience = absl::Seconds(5);

}  // namespace

bool SimOperator::IsExcused(const absl::Status& status) {
  return ReasonOf(status) == ErrorReason::kNotSaved || ReasonOf(status) == ErrorReason::kNotLeader;
}

void SimOperator::Forget(const std::string& name) {
  // Until a master has answered, what was wished before may be so.
  if (const auto wish = wishes_.find(name); wish != wishes_.end()) {
    wish->second.is_answered = false;
    wish->second.number = ++wishes_made_;
  }
  SimMaster* const leader = masters_.leader();
  if (leader == nullptr) {
    scheduler_.After(kAskAgainAfter, [this, name] { Forget(name); });
    return;
  }
  v1::ForgetNodeRequest request;
  request.mutable_version()->set_major(kWireMajor);
  request.set_name(name);
  const auto is_answered = std::make_shared<bool>(false);
  const std::function<void(absl::Status, v1::ForgetNodeResponse)> done =
      [this, name, is_answered](const absl::Status& status, const v1::ForgetNodeResponse&) {
        // Until the answer has come a crash may undo it.
        *is_answered = status.ok() || absl::IsNotFound(status);
        if (*is_answered) wishes_.erase(name);
        if (*is_answered || IsExcused(status)) return;
        violate_(absl::StrCat("forget of ", name, ": ", status.message()));
      };
  leader->On(leader->lives(), [leader, request, done] {
    leader->Take<v1::ForgetNodeRequest, v1::ForgetNodeResponse>(
        request,
        [](master::Handlers& handlers, const v1::ForgetNodeRequest& r, absl::Time now,
           auto answer) { handlers.ForgetNode(r, now, std::move(answer)); },
        done);
  });
  scheduler_.After(kPatience, [this, name, is_answered] {
    if (!*is_answered) Forget(name);
  });
}

void SimOperator::Want(const std::string& name, bool is_drained) {
  const uint64_t number = ++wishes_made_;
  wishes_[name] = {.is_drained = is_drained, .is_answered = false, .number = number};
  Ask(name, number);
}

void SimOperator::Ask(const std::string& name, uint64_t number) {
  const auto wish = wishes_.find(name);
  if (wish == wishes_.end() || wish->second.number != number || wish->second.is_answered) return;
  // One that is gone is asked again all the same, until it is answered.
  scheduler_.After(masters_.leader() == nullptr ? kAskAgainAfter : kPatience,
                   [this, name, number] { Ask(name, number); });
  SimMaster* const leader = masters_.leader();
  if (leader == nullptr) return;
  v1::DrainNodeRequest request;
  request.mutable_version()->set_major(kWireMajor);
  request.set_name(name);
  request.set_cancel(!wish->second.is_drained);
  const std::function<void(absl::Status, v1::DrainNodeResponse)> done =
      [this, name, number](const absl::Status& status, const v1::DrainNodeResponse&) {
        const auto answered = wishes_.find(name);
        if (answered == wishes_.end() || answered->second.number != number) return;
        if (status.ok()) answered->second.is_answered = true;
        // A node that this master has not met yet is not known to it.
        if (status.ok() || absl::IsNotFound(status) || IsExcused(status)) return;
        violate_(absl::StrCat("drain of ", name, ": ", status.message()));
      };
  leader->On(leader->lives(), [leader, request, done] {
    leader->Take<v1::DrainNodeRequest, v1::DrainNodeResponse>(
        request,
        [](master::Handlers& handlers, const v1::DrainNodeRequest& r, absl::Time now, auto answer) {
          handlers.DrainNode(r, now, std::move(answer));
        },
        done);
  });
}

int SimOperator::drained() const {
  return static_cast<int>(std::count_if(wishes_.begin(), wishes_.end(), [](const auto& entry) {
    return entry.second.is_drained || !entry.second.is_answered;
  }));
}

void SimOperator::AllIsForgotten() {
  std::erase_if(wishes_, [](const auto& entry) { return entry.second.is_answered; });
}

SimOperator::Drained SimOperator::IsDrained(const std::string& name) const {
  const auto wish = wishes_.find(name);
  if (wish == wishes_.end()) return Drained::kNo;
  if (!wish->second.is_answered) return Drained::kOpen;
  return wish->second.is_drained ? Drained::kYes : Drained::kNo;
}

std::string SimOperator::Check(const master::Core& leader, absl::Time now) const {
  if (wishes_.empty()) return "";
  for (const master::NodeStatus& node : leader.ListNodes(now)) {
    const Drained wanted = IsDrained(node.address.name);
    if (wanted == Drained::kOpen || (wanted == Drained::kYes) == node.drain.has_value()) continue;
    return absl::StrCat(node.address.name, wanted == Drained::kYes
                                               ? " was to be drained, and this master knows nothing"
                                               : " is drained, and nobody wants that");
  }
  return "";
}

}  // namespace moonpool::sim
