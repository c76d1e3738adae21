// What the Python package is compared with: the same reads by the C++ client, round by round in
// turns with it. Reads rounds from standard input and writes a line of JSON for each.
//
//   sdk-peer HOST:PORT NAMESPACE
//   > many 32 1048576      get_many of keys many-0 ... many-31 into preallocated buffers, once
//   < {"seconds": 0.0078}
//   > one 4096 2000        2,000 gets of the key "one" into a string of its own
//   > into 4096 2000       the same into a preallocated buffer
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/clock.h"
#include "moonpool/client.h"

namespace moonpool::scenarios {
namespace {

MutableBuffer BufferOf(std::string& bytes) {
  return MutableBuffer(reinterpret_cast<std::byte*>(bytes.data()), bytes.size());
}

double ReadMany(Client& client, size_t count, size_t bytes) {
  static std::vector<std::string> buffers;
  buffers.resize(count);
  std::vector<GetItem> items(count);
  for (size_t i = 0; i < count; ++i) {
    buffers[i].resize(bytes);
    items[i] = {.key = absl::StrCat("many-", i), .into = {BufferOf(buffers[i])}};
  }
  const SteadyClock clock;
  const absl::Time begin = clock.Now();
  const std::vector<absl::StatusOr<size_t>> read = client.GetMany(items);
  const double seconds = absl::ToDoubleSeconds(clock.Now() - begin);
  for (const absl::StatusOr<size_t>& result : read) {
    MP_CHECK(result.ok() && *result == bytes, "a read failed", result.status().ToString());
  }
  return seconds;
}

double ReadOne(Client& client, bool is_preallocated, size_t bytes, int times) {
  std::string buffer(bytes, '\0');
  const SteadyClock clock;
  const absl::Time begin = clock.Now();
  for (int i = 0; i < times; ++i) {
    const bool is_whole = is_preallocated ? client.Get("one", BufferOf(buffer)).value() == bytes
                                          : client.Get("one").value().size() == bytes;
    MP_CHECK(is_whole, "a read was short");
  }
  return absl::ToDoubleSeconds(clock.Now() - begin);
}

int Run(const std::string& master, const std::string& name_space) {
  auto client = Client::Connect({.masters = {master}, .name_space = name_space});
  if (!client.ok()) {
    std::cerr << Describe(client.status()) << "\n";
    return 1;
  }
  std::string line;
  while (std::getline(std::cin, line)) {
    std::istringstream words(line);
    std::string what;
    size_t first = 0, second = 0;
    words >> what >> first >> second;
    const double seconds = what == "many"
                               ? ReadMany(**client, first, second)
                               : ReadOne(**client, what == "into", first, static_cast<int>(second));
    std::cout << absl::StrCat("{\"seconds\": ", seconds, "}") << std::endl;
  }
  return 0;
}

}  // namespace
}  // namespace moonpool::scenarios

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "sdk-peer HOST:PORT NAMESPACE; see tests/scenarios/sdk_peer.cc\n";
    return 2;
  }
  return moonpool::scenarios::Run(argv[1], argv[2]);
}
