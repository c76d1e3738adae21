#include "tests/sim/sim_watcher.h"

#include "absl/strings/str_cat.h"
#include "common/version.h"

namespace moonpool::sim {
namespace {

// A stream lasts for so many reads, so that tokens are of use.
constexpr uint64_t kReadsPerStream = 23;

}  // namespace

void SimWatcher::Open(SimMaster& leader) {
  master_ = &leader;
  v1::WatchRequest request;
  request.mutable_version()->set_major(kWireMajor);
  request.mutable_version()->set_minor(kWireMinor);
  if (token_.has_value()) *request.mutable_resume() = *token_;
  auto opened = leader.handlers().Watch(
      request, [] {}, leader.Now());
  if (opened.ok()) watcher_ = *std::move(opened);
}

bool SimWatcher::Take(SimMaster& leader) {
  if (master_ != &leader || watcher_ == nullptr || watcher_->is_ended()) Open(leader);
  v1::EventBatch batch;
  if (watcher_ == nullptr || !watcher_->TakeMessage(leader.Now(), &batch)) return false;
  watcher_->Sent(leader.Now());
  Apply(batch);
  return true;
}

void SimWatcher::Apply(const v1::EventBatch& batch) {
  if (batch.reset() == v1::RESET_TOO_OLD || batch.reset() == v1::RESET_OTHER_LOG) ++resets_;
  for (const v1::Event& event : batch.events()) {
    ++events_;
    const auto key = std::make_pair(event.namespace_(), event.key());
    if (event.kind() == v1::EVENT_CLEARED) stored_.clear();
    if (event.kind() == v1::EVENT_STORED) stored_[key] = event.generation();
    if (event.kind() == v1::EVENT_REMOVED) stored_.erase(key);
  }
  is_whole_ = batch.whole();
  token_.reset();
  if (batch.has_token()) token_ = batch.token();
}

void SimWatcher::Read(SimMaster& leader) {
  if (++reads_ % kReadsPerStream == 0) {
    watcher_.reset();
    if (token_.has_value()) ++resumed_;
  }
  Take(leader);
}

std::string SimWatcher::Compare(SimMaster& leader) {
  watcher_.reset();  // the next tick may not have come yet; a new stream tells at once
  while (Take(leader)) {
  }
  if (!is_whole_) return "what a stream of events told is no whole";
  size_t named = 0;
  const master::Core& core = leader.core();
  for (const master::NamespaceStatus& space : core.GetStatus(leader.Now()).namespaces) {
    std::string page;
    do {
      const auto listed = core.ListObjects(
          {.caller = {.name_space = space.name}, .page_token = page}, leader.Now());
      if (!listed.ok()) return absl::StrCat("objects of ", space.name, " cannot be listed");
      for (const master::ObjectEntry& object : listed->objects) {
        const auto told = stored_.find({space.name, object.key});
        if (told == stored_.end()) return absl::StrCat(object.key, " is stored and was not told");
        if (told->second != object.generation.value) {
          return absl::StrCat(object.key, " was told of another generation");
        }
        ++named;
      }
      page = listed->next_page_token;
    } while (!page.empty());
  }
  if (named == stored_.size()) return "";
  return absl::StrCat(stored_.size() - named, " objects were told that are not stored");
}

}  // namespace moonpool::sim
