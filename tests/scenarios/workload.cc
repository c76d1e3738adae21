#include "tests/scenarios/workload.h"

#include <algorithm>
#include <functional>
#include <thread>

#include "absl/strings/str_cat.h"
#include "common/error.h"
#include "common/status_macros.h"
#include "tests/harness/content.h"

namespace moonpool::scenarios {
namespace {

constexpr size_t kBatch = 4096;

struct Range {
  size_t begin;
  size_t end;
};

// One thread per client, each with its share of the objects, in batches.
template <typename Result>
std::vector<Result> InParallel(const Clients& clients, size_t objects,
                               const std::function<void(Client&, Range, Result&)>& each) {
  std::vector<Result> results(clients.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < clients.size(); ++i) {
    const Range share{objects * i / clients.size(), objects * (i + 1) / clients.size()};
    threads.emplace_back([&clients, &each, &results, share, i] {
      for (size_t begin = share.begin; begin < share.end; begin += kBatch) {
        each(*clients[i], {begin, std::min(begin + kBatch, share.end)}, results[i]);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return results;
}

Found Sum(const std::vector<Found>& parts) {
  Found sum;
  for (const Found& part : parts) sum += part;
  return sum;
}

void NoteLoss(const absl::Status& why, Found& found) {
  if (found.lost++ == 0) found.first = Describe(why);
}

}  // namespace

Found& Found::operator+=(const Found& other) {
  readable += other.readable;
  lost += other.lost;
  wrong += other.wrong;
  if (first.empty()) first = other.first;
  return *this;
}

void Count(const std::string& key, const absl::StatusOr<size_t>& got,
           absl::Span<const std::byte> into, Found& found) {
  if (!got.ok()) {
    NoteLoss(got.status(), found);
  } else if (*got != into.size() || !harness::HoldsContentOf(key, into)) {
    ++found.wrong;
  } else {
    ++found.readable;
  }
}

CallOptions Patient() { return {.timeout = absl::Seconds(60), .cancel = {}}; }

std::string KeyOf(size_t i) { return absl::StrCat("object-", i); }

absl::StatusOr<Clients> ConnectMany(size_t clients, const ClientOptions& options) {
  Clients connected;
  for (size_t i = 0; i < clients; ++i) {
    ASSIGN_OR_RETURN(auto client, Client::Connect(options));
    connected.push_back(std::move(client));
  }
  return connected;
}

absl::Status PutAll(const Clients& clients, const Workload& work) {
  const auto put = [&work](Client& client, Range range, absl::Status& result) {
    if (!result.ok()) return;
    std::vector<std::vector<std::byte>> values;
    std::vector<PutItem> items;
    for (size_t i = range.begin; i < range.end; ++i) {
      values.push_back(harness::ContentOf(KeyOf(i), work.bytes));
      items.push_back({.key = KeyOf(i), .value = {values.back()}, .parent = {}});
    }
    const PutOptions options{.call = Patient(), .replicas = work.replicas};
    for (const absl::Status& status : client.PutMany(items, options)) result.Update(status);
  };
  for (const absl::Status& status : InParallel<absl::Status>(clients, work.objects, put)) {
    RETURN_IF_ERROR(status);
  }
  return absl::OkStatus();
}

Found CountReadable(const Clients& clients, const Workload& work) {
  return Sum(
      InParallel<Found>(clients, work.objects, [](Client& client, Range range, Found& found) {
        std::vector<std::string> keys;
        for (size_t i = range.begin; i < range.end; ++i) keys.push_back(KeyOf(i));
        for (const absl::Status& status : client.Exists(keys, Patient())) {
          status.ok() ? void(++found.readable) : NoteLoss(status, found);
        }
      }));
}

Found ReadAll(const Clients& clients, const Workload& work) {
  const auto read = [&work](Client& client, Range range, Found& found) {
    std::vector<std::byte> buffer((range.end - range.begin) * work.bytes);
    const auto place = [&](size_t i) {
      return absl::MakeSpan(buffer).subspan((i - range.begin) * work.bytes, work.bytes);
    };
    std::vector<GetItem> items;
    for (size_t i = range.begin; i < range.end; ++i) {
      items.push_back({.key = KeyOf(i), .into = {place(i)}});
    }
    const auto got = client.GetMany(items, {.call = Patient()});
    for (size_t i = range.begin; i < range.end; ++i) {
      Count(KeyOf(i), got[i - range.begin], place(i), found);
    }
  };
  return Sum(InParallel<Found>(clients, work.objects, read));
}

}  // namespace moonpool::scenarios
