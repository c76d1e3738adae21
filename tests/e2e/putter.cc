// A client that puts one large object after the other until it is killed:
//   e2e-putter MASTER PREFIX BYTES PATH     keys PREFIX0, PREFIX1, ...
#include <cstdio>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/error.h"
#include "moonpool/client.h"
#include "tests/harness/content.h"

int main(int argc, char** argv) {
  using namespace moonpool;
  size_t size = 0;
  if (argc != 5 || !absl::SimpleAtoi(argv[3], &size)) return 2;
  auto client = Client::Connect(
      {.masters = {argv[1]}, .path = std::string(argv[4]) == "tcp" ? Path::kTcp : Path::kAuto});
  if (!client.ok()) {
    std::fprintf(stderr, "%s\n", Describe(client.status()).c_str());
    return 1;
  }
  for (size_t i = 0;; ++i) {
    const std::string key = absl::StrCat(argv[2], i);
    const std::vector<std::byte> value = harness::ContentOf(key, size);
    std::printf("putting %zu\n", i);
    std::fflush(stdout);
    const absl::Status put = (*client)->Put(key, value);
    if (!put.ok()) {
      std::fprintf(stderr, "%s\n", Describe(put).c_str());
      return 1;
    }
  }
}
