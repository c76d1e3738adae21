// What a node does beside a session whose master is silent: it asks the others.
#include <utility>

#include "common/error.h"
#include "common/rpc/status_proto.h"
#include "storage_node/link/master_link.h"

namespace moonpool::storage_node {
namespace {

// One heartbeat was not answered in time, and half of the next interval has gone by.
constexpr double kIntervalsOfSilence = 1.5;

}  // namespace

absl::Time MasterLink::SearchAt() const {
  if (search_.has_value()) return search_at_;
  // Nobody else could lead.
  if (choice_.size() == 1) return absl::InfiniteFuture();
  if (has_been_told_) return last_heard_;
  return last_heard_ + heartbeat_interval_ * kIntervalsOfSilence;
}

void MasterLink::TickSearch(absl::Time now, LinkOutput& out) {
  const bool is_heard = now < last_heard_ + heartbeat_interval_ * kIntervalsOfSilence;
  if (search_.has_value() && is_heard && !has_been_told_) return EndSearch(out);
  if (now < SearchAt()) return;
  if (!search_.has_value()) {
    search_ = choice_;
    search_->OnSilent(now);
  } else if (!asked_.empty()) {
    search_->OnSilent(now);
    asked_.clear();
    out.end_ask = true;
  }
  AskNext(now, out);
}

void MasterLink::AskNext(absl::Time now, LinkOutput& out) {
  LeaderChoice::Step step = search_->Next(now);
  if (step.address == master_) {  // its session is still there
    search_->OnSilent(now);
    step = search_->Next(now);
  }
  search_at_ = step.at;
  if (step.address.empty() || step.address == master_) return;
  asked_ = step.address;
  search_at_ = now + std::min(step.patience, options_.register_timeout);
  out.ask = {.address = asked_, .registration = Registration()};
}

LinkOutput MasterLink::OnAskMessage(const v1::MasterMessage& message, absl::Time now) {
  LinkOutput out;
  if (!asked_.empty()) {
    const absl::Status refusal = StatusFromProto(message.refused().status());
    if (message.has_registered() && Check(message.registered()).ok()) {
      MoveTo(message.registered(), now, out);
    } else {
      if (ReasonOf(refusal) == ErrorReason::kNotLeader) {
        search_->OnNotLeader(DetailOf(refusal)->leader, now);
      } else {
        search_->OnUnreachable(now);
      }
      asked_.clear();
      search_at_ = now;
      out.end_ask = true;
    }
  }
  out.wake_at = WakeAt(now, true);
  return out;
}

LinkOutput MasterLink::OnAskEnded(absl::Time now) {
  LinkOutput out;
  if (!asked_.empty()) {
    search_->OnUnreachable(now);
    asked_.clear();
    search_at_ = now;
  }
  out.wake_at = WakeAt(now, true);
  return out;
}

void MasterLink::MoveTo(const v1::Registered& registered, absl::Time now, LinkOutput& out) {
  logger_.Warn("another master leads than the one that is silent",
               {{"silent", master_}, {"leader", asked_}, {"for", now - last_heard_}});
  metrics_.failures.Increment();
  out.adopt = true;
  master_ = std::exchange(asked_, {});
  choice_ = *std::exchange(search_, std::nullopt);
  EnterState(LinkState::kRegistering);
  OnRegistered(registered, now, out);
}

void MasterLink::EndSearch(LinkOutput& out) {
  if (!asked_.empty()) out.end_ask = true;
  out.ask.reset();  // of this very tick: nobody would end it
  asked_.clear();
  search_.reset();
}

}  // namespace moonpool::storage_node
