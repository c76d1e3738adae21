// moonpool kv-events: the pool's events as engines publish theirs, for routers that read those.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "cli/commands.h"
#include "cli/kv_events/idle_beat.h"
#include "cli/kv_events/kv_event_wire.h"
#include "cli/kv_events/kv_publisher.h"
#include "cli/stop_token.h"
#include "cli/values.h"
#include "common/clock.h"
#include "common/standard_files.h"
#include "common/status_macros.h"
#include "moonpool/events.h"

namespace moonpool::cli {
namespace {

// Who needs what is stored, and cannot be told it alone, has everything told anew, and with him all
// others.
constexpr absl::Duration kBetweenRepeats = absl::Seconds(10);
// While no master answers, nobody waits longer for a snapshot, and a warning says so.
constexpr absl::Duration kPatience = absl::Seconds(5);

struct Arguments {
  KvPublisherOptions publisher;
  KvEventWireOptions wire;
  std::string form = "map";
};

double SecondsSinceEpoch() { return absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch()); }

// What stands between the pool and the sockets.
class Bridge {
 public:
  Bridge(const Session& session, const KvEventWireOptions& wire, CancelToken cancel)
      : session_(session),
        cancel_(std::move(cancel)),
        warns_after_(std::min(session.timeout, kPatience)),
        is_size_known_(wire.block_size != 0),
        wire_(wire) {}

  // Until it is cancelled, or fails.
  absl::Status Run(KvPublisher& publisher) {
    while (true) {
      // From the start: a subscriber has to be told everything.
      ASSIGN_OR_RETURN(const auto stream, EventStream::Open({.masters = session_.masters,
                                                             .name_space = session_.name_space,
                                                             .give_up_after = warns_after_}));
      told_at_ = clock_.Now();
      absl::Status end;
      do {
        end = stream->Run([&](const EventBatch& batch) { return Take(batch, publisher); }, cancel_);
        NoteOutage(end);
      } while (absl::IsUnavailable(end));
      RETURN_IF_ERROR(end);
    }
  }

  // What is stored now, for one subscriber. On the thread of snapshots.
  absl::StatusOr<std::vector<std::string>> TakeSnapshot(uint64_t batches_max) {
    // A stream of its own: nothing is kept here for those who may never ask.
    ASSIGN_OR_RETURN(const auto stream, EventStream::Open({.masters = session_.masters,
                                                           .name_space = session_.name_space,
                                                           .give_up_after = kPatience}));
    std::vector<EncodedEvents> parts;
    RETURN_IF_ERROR(stream->Run(
        [&](const EventBatch& batch) {
          if (batch.reset != EventReset::kNone) parts.clear();
          for (EncodedEvents& part : Encode(batch.events)) parts.push_back(std::move(part));
          return !batch.is_whole;
        },
        cancel_));
    return JoinKvEvents(parts, batches_max, SecondsSinceEpoch());
  }

 private:
  // The stream goes on where it was: what is said is for people, once per outage.
  void NoteOutage(const absl::Status& end) {
    if (!absl::IsUnavailable(end) || std::exchange(is_out_, true)) return;
    Warn(end.message(), "waiting for one");
  }

  // False: all is to be told anew.
  bool Take(const EventBatch& batch, KvPublisher& publisher) {
    if (std::exchange(is_out_, false)) Warn("a master answers", "going on");
    if (!std::exchange(is_checked_, true)) WarnOfUnknownNamespace(session_);
    Publish(batch, publisher);
    has_gap_ = publisher.TakeGap() || has_gap_;
    if (!has_gap_ || !batch.is_whole || clock_.Now() < told_at_ + kBetweenRepeats) return true;
    has_gap_ = false;
    return false;
  }

  void Publish(const EventBatch& batch, KvPublisher& publisher) {
    if (!batch.events.empty()) {
      if (!is_size_known_) FindBlockSize();
      beat_.OnPublished(clock_.Now());
      for (const EncodedEvents& part : Encode(batch.events)) {
        publisher.Publish(JoinKvEvents({part}, 1, SecondsSinceEpoch()).front());
      }
    } else if (beat_.IsDue(clock_.Now())) {
      publisher.Publish(JoinKvEvents({EncodedEvents()}, 1, SecondsSinceEpoch()).front());
    }
  }

  // The namespace may be made at any time; once there is one, its layout stays.
  void FindBlockSize() {
    const absl::StatusOr<v1::GetStatusResponse> pool = session_.Link().GetStatus();
    if (!pool.ok()) return;
    for (const v1::NamespaceStatus& known : pool->namespaces()) {
      if (known.name() != session_.name_space) continue;
      is_size_known_ = true;
      absl::MutexLock lock(&mutex_);
      wire_.block_size = PageTokensOf(known.fingerprint()).value_or(0);
    }
  }
  std::vector<EncodedEvents> Encode(absl::Span<const Event> events) const {
    return EncodeKvEventsInParts(events, wire(), kKvBatchBytes);
  }
  KvEventWireOptions wire() const {
    absl::MutexLock lock(&mutex_);
    return wire_;
  }

  const Session& session_;
  const CancelToken cancel_;
  const absl::Duration warns_after_;
  const SteadyClock clock_;
  bool is_size_known_;
  absl::Time told_at_;
  bool has_gap_ = false;
  bool is_out_ = false;      // no master answers, and that was said
  bool is_checked_ = false;  // whether there is such a namespace
  IdleBeat beat_;
  mutable absl::Mutex mutex_;
  KvEventWireOptions wire_ ABSL_GUARDED_BY(mutex_);
};

int Run(const Session& session, Arguments& arguments) {
  const StopToken stop;
  arguments.wire.form = arguments.form == "map" ? KvEventForm::kMap : KvEventForm::kArray;
  Bridge bridge(session, arguments.wire, stop.token());
  KvPublisherOptions& options = arguments.publisher;
  options.kept.first_number = static_cast<uint64_t>(absl::ToUnixMicros(absl::Now()));
  options.replay.sends_topic = arguments.wire.form == KvEventForm::kMap;
  options.replay.snapshot = [&bridge](uint64_t batches_max) {
    return bridge.TakeSnapshot(batches_max);
  };
  options.replay.cleared = [wire = arguments.wire] {
    const Event cleared{.kind = EventKind::kCleared};
    return JoinKvEvents({EncodeKvEvents({&cleared, 1}, wire)}, 1, SecondsSinceEpoch()).front();
  };
  if (options.replay.topic.empty()) {
    options.replay.topic = absl::StrCat("kv@moonpool@", session.name_space);
  }
  const auto publisher = KvPublisher::Start(options);
  if (!publisher.ok()) return Fail(session, publisher.status());
  std::printf("ready: --endpoint %s --replay-endpoint %s\n", (*publisher)->endpoint().c_str(),
              (*publisher)->replay_endpoint().c_str());
  if (const absl::Status written = FlushStandardOutput(); !written.ok()) {
    return Fail(session, written);
  }
  const absl::Status end = bridge.Run(**publisher);
  return absl::IsCancelled(end) ? kOk : Fail(session, end);
}

}  // namespace

void AddKvEventsCommand(CLI::App& app, Session& session) {
  CLI::App* const command = AddPoolCommand(
      app, session, "kv-events", "Publish events over ZeroMQ, as engines do",
      {"moonpool kv-events --namespace llama\n"
       "moonpool kv-events --endpoint 'tcp://*:5557' --replay-endpoint 'tcp://*:5558'",
       "For routers that read the KV events of vLLM or SGLang. Of one namespace; until Ctrl-C.\n"
       "Prints a line `ready: ...` with both endpoints when they are bound, and waits for a\n"
       "master for as long as it takes. A block's hash is the last segment of its key where\n"
       "that is hexadecimal, else the key."});
  auto arguments = std::make_shared<Arguments>();
  KvPublisherOptions& publisher = arguments->publisher;
  AddTextOption(*command, "--endpoint", &publisher.endpoint,
                "Where batches are published [tcp://127.0.0.1:5557]");
  AddTextOption(*command, "--replay-endpoint", &publisher.replay_endpoint,
                "Where those that were missed are asked for\n[tcp://127.0.0.1:5558]");
  AddTextOption(*command, "--topic", &publisher.replay.topic,
                "Of all batches [kv@moonpool@NAMESPACE]");
  AddChoiceOption(
      *command, "--form", &arguments->form, {"map", "array"},
      "map: events as vLLM 0.32 and SGLang 0.5.23 write\nthem; array: as older vLLM did [map]");
  AddTextOption(*command, "--medium", &arguments->wire.medium,
                "Where blocks are said to be [EXTERNAL]");
  AddNumberOption(*command, "--block-size", &arguments->wire.block_size, {1, 1 << 20},
                  "Tokens of a block [page_tokens of the namespace's\nfingerprint, else 0]");
  AddNumberOption(*command, "--keep-batches", &publisher.kept.batches_max, {1, 1 << 24},
                  "For those who missed some [10000]");
  AddBytesOption(*command, "--keep-bytes", &publisher.kept.bytes_max,
                 "And no more than that [64MiB]");
  command->callback([&session, arguments] {
    session.run = [&session, arguments] { return Run(session, *arguments); };
  });
}

}  // namespace moonpool::cli
