#include "cli/kv_events/kv_publisher.h"

#include <pthread.h>

#include <utility>
#include <vector>

#include "common/status_macros.h"

namespace moonpool::cli {
namespace {

constexpr size_t kSequenceBytes = 8;
constexpr absl::Duration kReplayPoll = absl::Milliseconds(100);  // and it sees that it is to stop

std::string BigEndian(uint64_t number) {
  std::string bytes(kSequenceBytes, '\0');
  for (size_t i = 0; i < kSequenceBytes; ++i) {
    bytes[i] = static_cast<char>(number >> (8 * (kSequenceBytes - 1 - i)));
  }
  return bytes;
}

uint64_t FromBigEndian(absl::string_view bytes) {
  uint64_t number = 0;
  for (const char byte : bytes) number = number << 8 | static_cast<uint8_t>(byte);
  return number;
}

// -1: what ends an answer.
constexpr absl::string_view kEndOfReplay("\xff\xff\xff\xff\xff\xff\xff\xff", kSequenceBytes);

}  // namespace

absl::StatusOr<std::unique_ptr<KvPublisher>> KvPublisher::Start(KvPublisherOptions options) {
  auto context = std::make_unique<ZmqContext>();
  ASSIGN_OR_RETURN(ZmqSocket pub, ZmqSocket::Bind(*context, ZmqSocket::Type::kPub, options.endpoint,
                                                  options.high_water));
  ASSIGN_OR_RETURN(ZmqSocket replay, ZmqSocket::Bind(*context, ZmqSocket::Type::kRouter,
                                                     options.replay_endpoint, options.high_water));
  return std::unique_ptr<KvPublisher>(
      new KvPublisher(std::move(options), std::move(pub), std::move(replay), std::move(context)));
}

KvPublisher::KvPublisher(KvPublisherOptions options, ZmqSocket pub, ZmqSocket replay,
                         std::unique_ptr<ZmqContext> context)
    : options_(std::move(options)),
      context_(std::move(context)),
      pub_(std::move(pub)),
      replay_(std::move(replay)),
      thread_([this] {
        pthread_setname_np(pthread_self(), "replay");
        RunReplay();
      }) {}

KvPublisher::~KvPublisher() {
  {
    absl::MutexLock lock(&mutex_);
    is_stopping_ = true;
  }
  thread_.join();
}

void KvPublisher::Publish(std::string payload) {
  uint64_t sequence = 0;
  {
    absl::MutexLock lock(&mutex_);
    sequence = next_++;
    kept_bytes_ += payload.size();
    // Before it is sent: who finds a gap behind it may ask at once.
    kept_.push_back({sequence, payload});
    while (kept_.size() > options_.kept_batches || kept_bytes_ > options_.kept_bytes) {
      kept_bytes_ -= kept_.front().payload.size();
      kept_.pop_front();
    }
  }
  const std::string number = BigEndian(sequence);
  pub_.Send({options_.topic, number, payload});
}

bool KvPublisher::TakeGap() {
  absl::MutexLock lock(&mutex_);
  return std::exchange(has_gap_, false);
}

bool KvPublisher::is_stopping() const {
  absl::MutexLock lock(&mutex_);
  return is_stopping_;
}

void KvPublisher::RunReplay() {
  while (!is_stopping()) {
    const auto request = replay_.Receive(kReplayPoll);
    if (request.has_value()) Answer(*request);
  }
}

bool KvPublisher::Find(uint64_t sequence, Batch* batch) {
  absl::MutexLock lock(&mutex_);
  if (kept_.empty() || sequence >= next_) return false;
  const uint64_t first = kept_.front().sequence;
  *batch = kept_[sequence > first ? sequence - first : 0];
  return true;
}

void KvPublisher::Answer(const std::vector<std::string>& request) {
  // [who, "", from]; what is anything else was sent by nobody who wants an answer.
  if (request.size() != 3 || request[2].size() != kSequenceBytes) return;
  const absl::string_view who = request[0];
  const uint64_t from = FromBigEndian(request[2]);
  Batch batch;
  uint64_t next = from;
  // One after the other, so that publishing does not wait for a reader who takes many.
  while (!is_stopping() && Find(next, &batch)) {
    if (batch.sequence > next) {
      absl::MutexLock lock(&mutex_);
      has_gap_ = true;
    }
    const std::string number = BigEndian(batch.sequence);
    const bool is_sent = options_.replays_topic
                             ? replay_.Send({who, "", options_.topic, number, batch.payload})
                             : replay_.Send({who, "", number, batch.payload});
    if (!is_sent) return;  // it takes no more, or has gone, and will ask again
    next = batch.sequence + 1;
  }
  if (options_.replays_topic) {
    replay_.Send({who, "", "", kEndOfReplay, ""});
  } else {
    replay_.Send({who, "", kEndOfReplay, ""});
  }
}

}  // namespace moonpool::cli
