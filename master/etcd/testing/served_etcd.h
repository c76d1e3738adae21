// A FakeEtcd behind the interface, for what has threads: calls are answered at once, or refused as
// told. A wait for a change is held until there is one; its timeout is left to whoever destroys it.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "common/clock.h"
#include "master/etcd/testing/fake_etcd.h"

namespace moonpool::master {

// Thread-safe.
class ServedEtcd final : public Etcd {
 public:
  // What becomes of a request. kLost: it is carried out, and its answer is not heard.
  enum class Fate { kServed, kRefused, kLost };
  using Oracle = std::function<Fate(const EtcdRequest&)>;

  explicit ServedEtcd(const Clock& clock) : clock_(clock) {}
  ~ServedEtcd() override {
    for (auto& [await, done] : Take([](const EtcdAwaitChange&) { return true; })) {
      std::move(done)(absl::DeadlineExceededError("no change"));
    }
  }

  void Call(EtcdRequest request, absl::Duration /*timeout*/, Done done) override {
    absl::StatusOr<EtcdAnswer> answer;
    {
      absl::MutexLock lock(&mutex_);
      if (is_holding_) {
        held_.emplace_back(std::move(request), std::move(done));
        return;
      }
      const Fate fate = oracle_ ? oracle_(request) : Fate::kServed;
      const auto* await = std::get_if<EtcdAwaitChange>(&request);
      if (fate != Fate::kRefused && await != nullptr && !etcd_.HasChanged(*await)) {
        waits_.emplace_back(*await, std::move(done));
        return;
      }
      if (fate != Fate::kRefused) answer = etcd_.Apply(request, clock_.Now());
      if (fate != Fate::kServed) answer = absl::UnavailableError("no answer");
    }
    std::move(done)(std::move(answer));
    WakeWaits();
  }

  // From now on calls wait, until Release.
  void Hold() {
    absl::MutexLock lock(&mutex_);
    is_holding_ = true;
  }
  void Release() {
    std::vector<std::pair<EtcdRequest, Done>> held;
    {
      absl::MutexLock lock(&mutex_);
      is_holding_ = false;
      held.swap(held_);
    }
    for (auto& [request, done] : held) Call(std::move(request), {}, std::move(done));
  }
  void SetOracle(Oracle oracle) {
    absl::MutexLock lock(&mutex_);
    oracle_ = std::move(oracle);
  }
  // Somebody else's request.
  absl::StatusOr<EtcdAnswer> Apply(const EtcdRequest& request) {
    absl::StatusOr<EtcdAnswer> answer;
    {
      absl::MutexLock lock(&mutex_);
      answer = etcd_.Apply(request, clock_.Now());
    }
    WakeWaits();
    return answer;
  }
  std::string Value(const std::string& key) const {
    absl::MutexLock lock(&mutex_);
    return etcd_.Value(key);
  }

 private:
  using Wait = std::pair<EtcdAwaitChange, Done>;

  template <typename Predicate>
  std::vector<Wait> Take(Predicate is_taken) {
    absl::MutexLock lock(&mutex_);
    std::vector<Wait> taken;
    std::vector<Wait> kept;
    for (Wait& wait : waits_) (is_taken(wait.first) ? taken : kept).push_back(std::move(wait));
    waits_ = std::move(kept);
    return taken;
  }
  void WakeWaits() {
    const auto is_due = [this](const EtcdAwaitChange& await) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return etcd_.HasChanged(await);
    };
    for (auto& [await, done] : Take(is_due)) std::move(done)(EtcdDone{});
  }

  const Clock& clock_;
  mutable absl::Mutex mutex_;
  FakeEtcd etcd_ ABSL_GUARDED_BY(mutex_);
  Oracle oracle_ ABSL_GUARDED_BY(mutex_);
  std::vector<Wait> waits_ ABSL_GUARDED_BY(mutex_);
  bool is_holding_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::pair<EtcdRequest, Done>> held_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace moonpool::master
