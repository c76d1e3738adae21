// A node with many sealed objects is killed and started again:
//   node-restart FOLDER [OBJECTS] [BYTES]     FOLDER: on tmpfs, empty
//
// Measured, from the moment before the new process is started, until the master says of every key
// that it is readable (Exists, in batches), and until every object has been read once and compared.
// The last line is JSON. Exit code 0: nothing lost, nothing wrong, and readable in time.
#include <signal.h>

#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "cli/master_link/master_link.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/status_macros.h"
#include "nlohmann/json.hpp"
#include "tests/e2e/harness.h"

namespace moonpool::scenarios {
namespace {

constexpr absl::Duration kReadableMax = absl::Seconds(2);
constexpr size_t kBatch = 4096;

struct Workload {
  size_t objects = 100'000;
  size_t bytes = 4096;
};

CallOptions Patient() { return {.timeout = absl::Seconds(60), .cancel = {}}; }

std::string KeyOf(size_t i) { return absl::StrCat("object-", i); }

// Calls `done` with the first and the last key of each batch.
template <typename Do>
absl::Status InBatches(const Workload& work, Do each) {
  for (size_t begin = 0; begin < work.objects; begin += kBatch) {
    RETURN_IF_ERROR(each(begin, std::min(begin + kBatch, work.objects)));
  }
  return absl::OkStatus();
}

absl::Status PutAll(Client& client, const Workload& work) {
  return InBatches(work, [&](size_t begin, size_t end) -> absl::Status {
    std::vector<std::vector<std::byte>> values;
    std::vector<PutItem> items;
    for (size_t i = begin; i < end; ++i) {
      values.push_back(e2e::ContentOf(KeyOf(i), work.bytes));
      items.push_back({.key = KeyOf(i), .value = {values.back()}, .parent = {}});
    }
    for (const absl::Status& status : client.PutMany(items, {.call = Patient()})) {
      RETURN_IF_ERROR(status);
    }
    return absl::OkStatus();
  });
}

size_t CountReadable(Client& client, const Workload& work) {
  size_t readable = 0;
  InBatches(work, [&](size_t begin, size_t end) {
    std::vector<std::string> keys;
    for (size_t i = begin; i < end; ++i) keys.push_back(KeyOf(i));
    for (const absl::Status& status : client.Exists(keys, Patient())) readable += status.ok();
    return absl::OkStatus();
  }).IgnoreError();
  return readable;
}

struct Read {
  size_t lost = 0;
  size_t wrong = 0;
};

Read ReadAll(Client& client, const Workload& work) {
  Read read;
  std::vector<std::byte> buffer(kBatch * work.bytes);
  InBatches(work, [&](size_t begin, size_t end) {
    std::vector<GetItem> items;
    const auto place = [&](size_t i) {
      return absl::MakeSpan(buffer).subspan((i - begin) * work.bytes, work.bytes);
    };
    for (size_t i = begin; i < end; ++i) items.push_back({.key = KeyOf(i), .into = {place(i)}});
    const auto got = client.GetMany(items, {.call = Patient()});
    for (size_t i = begin; i < end; ++i) {
      if (!got[i - begin].ok()) {
        if (read.lost++ == 0)
          std::fprintf(stderr, "%s\n", Describe(got[i - begin].status()).c_str());
      } else if (*got[i - begin] != work.bytes || !e2e::HoldsContentOf(KeyOf(i), place(i))) {
        ++read.wrong;
      }
    }
    return absl::OkStatus();
  }).IgnoreError();
  return read;
}

// True once `predicate` is; false at the deadline.
template <typename Predicate>
bool Within(absl::Duration limit, const Clock& clock, Predicate predicate) {
  const absl::Time deadline = clock.Now() + limit;
  while (!predicate()) {
    if (clock.Now() >= deadline) return false;
  }
  return true;
}

absl::StatusOr<nlohmann::json> Run(const std::string& folder, const Workload& work) {
  const SteadyClock clock;
  ASSIGN_OR_RETURN(
      const auto cluster,
      dev::DevCluster::Start({.nodes = 1,
                              .dram_bytes = work.objects * (work.bytes + 512) + (64 << 20),
                              .node_args = {"--pool-dir", folder + "/pool"},
                              .program_dir = dev::OwnProgramDir()}));
  ASSIGN_OR_RETURN(const auto client, Client::Connect({.masters = {cluster->master_address()}}));
  RETURN_IF_ERROR(PutAll(*client, work));

  dev::ChildProcess& node = *cluster->node(0).process;
  node.Signal(SIGKILL);
  if (!node.WaitForExit(e2e::kPatience)) return absl::InternalError("the node does not die");
  cli::MasterLink link({cluster->master_address()}, e2e::kPatience);
  const bool is_noticed = Within(e2e::kPatience, clock, [&] {
    const auto status = link.GetStatus();
    return status.ok() && status->nodes_up() == 0;
  });
  if (!is_noticed) return absl::InternalError("the master does not notice");

  const absl::Time begin = clock.Now();
  RETURN_IF_ERROR(cluster->RestartNode(0));
  const absl::Duration started = clock.Now() - begin;
  size_t readable = 0;
  Within(e2e::kPatience, clock, [&] {
    readable = CountReadable(*client, work);
    return readable == work.objects;
  });
  const absl::Duration all_readable = clock.Now() - begin;
  const Read read = ReadAll(*client, work);
  const absl::Duration all_read = clock.Now() - begin;
  return nlohmann::json{{"scenario", "node_restart"},
                        {"objects", work.objects},
                        {"object_bytes", work.bytes},
                        {"started_s", absl::ToDoubleSeconds(started)},
                        {"readable_s", absl::ToDoubleSeconds(all_readable)},
                        {"readable_s_max", absl::ToDoubleSeconds(kReadableMax)},
                        {"all_read_and_compared_s", absl::ToDoubleSeconds(all_read)},
                        {"not_readable", work.objects - readable},
                        {"lost", read.lost},
                        {"wrong", read.wrong},
                        {"ok", readable == work.objects && all_readable < kReadableMax &&
                                   read.lost == 0 && read.wrong == 0}};
}

}  // namespace
}  // namespace moonpool::scenarios

int main(int argc, char** argv) {
  moonpool::scenarios::Workload work;
  if (argc < 2 || argc > 4 || (argc > 2 && !absl::SimpleAtoi(argv[2], &work.objects)) ||
      (argc > 3 && !absl::SimpleAtoi(argv[3], &work.bytes))) {
    std::fprintf(stderr, "usage: node-restart FOLDER [OBJECTS] [BYTES]\n");
    return 2;
  }
  const auto result = moonpool::scenarios::Run(argv[1], work);
  if (!result.ok()) {
    std::fprintf(stderr, "node-restart: %s\n", moonpool::Describe(result.status()).c_str());
    return 1;
  }
  std::printf("%s\n", result->dump().c_str());
  return (*result)["ok"].get<bool>() ? 0 : 1;
}
