#include "tests/scenarios/load.h"

#include <poll.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/error.h"
#include "tests/harness/content.h"

namespace moonpool::scenarios {

SteadyWriter::SteadyWriter(Client& client, PutLoad load)
    : client_(client), load_(std::move(load)), thread_([this] { Run(); }) {}

SteadyWriter::~SteadyWriter() { Stop(); }

void SteadyWriter::Stop() {
  is_stopping_ = true;
  if (thread_.joinable()) thread_.join();
}

std::string SteadyWriter::KeyOf(size_t i) const { return absl::StrCat(load_.prefix, i); }

void SteadyWriter::Run() {
  const PutOptions options{.call = {.timeout = load_.timeout, .cancel = {}},
                           .replicas = load_.replicas};
  for (size_t i = 0; !is_stopping_; ++i) {
    poll(nullptr, 0, load_.pause_ms);
    const absl::Status put =
        client_.Put(KeyOf(i), harness::ContentOf(KeyOf(i), load_.bytes), options);
    absl::MutexLock lock(&mutex_);
    // There already: a put whose answer was lost, and that was repeated inside of the call.
    if (put.ok() || absl::IsAlreadyExists(put)) {
      acknowledged_at_.push_back(clock_.Now());
      acknowledged_.push_back(i);
    } else if (failed_++ == 0) {
      first_error_ = Describe(put);
    }
  }
}

absl::Duration SteadyWriter::LongestGapSince(absl::Time since) const {
  absl::MutexLock lock(&mutex_);
  absl::Duration longest;
  absl::Time last = since;
  for (const absl::Time at : acknowledged_at_) {
    if (at < since) continue;
    longest = std::max(longest, at - last);
    last = at;
  }
  return std::max(longest, clock_.Now() - last);
}

bool SteadyWriter::HasPutSince(absl::Time since) const {
  absl::MutexLock lock(&mutex_);
  return !acknowledged_at_.empty() && acknowledged_at_.back() >= since;
}

std::string SteadyWriter::first_error() const {
  absl::MutexLock lock(&mutex_);
  return first_error_;
}

Found SteadyWriter::ReadBack(Client& reader) const {
  absl::MutexLock lock(&mutex_);
  Found found;
  std::vector<std::byte> buffer(load_.bytes);
  for (const size_t i : acknowledged_) {
    const auto got = reader.Get(KeyOf(i), absl::MakeSpan(buffer), {.call = Patient()});
    Count(KeyOf(i), got, buffer, found);
  }
  return found;
}

SteadyReader::SteadyReader(Client& client, const Workload& work)
    : client_(client), work_(work), thread_([this] { Run(); }) {}

SteadyReader::~SteadyReader() { Stop(); }

Found SteadyReader::Stop() {
  is_stopping_ = true;
  if (thread_.joinable()) thread_.join();
  return found_;
}

void SteadyReader::Run() {
  std::vector<std::byte> buffer(work_.bytes);
  for (size_t i = 0; !is_stopping_; i = (i + 1) % work_.objects) {
    // Many more gets than puts, and still a machine that has time for the rest.
    poll(nullptr, 0, 1);
    const std::string key = scenarios::KeyOf(i);
    Count(key, client_.Get(key, absl::MakeSpan(buffer)), buffer, found_);
  }
}

}  // namespace moonpool::scenarios
