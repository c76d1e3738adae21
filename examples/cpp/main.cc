// Stores a prompt's blocks as a chain, asks how much of a longer prompt is there, and reads it
// back.
//
//   moonpool-example HOST:PORT
//
// Exit codes: 0 ok, 1 failed, 2 wrong usage.
#include <cstddef>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "moonpool/client.h"

namespace {

// Two blocks of one prompt, each naming the one before it: of a chain, the end is evicted first.
absl::Status StorePrompt(moonpool::Client& client) {
  absl::Status put = client.Put("prompt/0", "the keys and values of 16 tokens");
  // An engine that computed the same block was faster: what is stored is as good.
  if (!put.ok() && !absl::IsAlreadyExists(put)) return put;
  const std::vector<std::byte> second(23);
  put = client.Put({.key = "prompt/1", .value = {second}, .parent = "prompt/0"});
  return absl::IsAlreadyExists(put) ? absl::OkStatus() : put;
}

absl::Status Run(const std::string& master) {
  // The fingerprint is what makes blocks of one layout readable as such: a client with another one
  // is refused instead of reading nonsense.
  absl::StatusOr<std::unique_ptr<moonpool::Client>> connected =
      moonpool::Client::Connect({.masters = {master},
                                 .name_space = "example-cpp",
                                 .fingerprint = "toy-model/fp16/16-tokens"});
  if (!connected.ok()) return connected.status();
  moonpool::Client& client = **connected;

  if (absl::Status stored = StorePrompt(client); !stored.ok()) return stored;

  const std::vector<std::string> wanted = {"prompt/0", "prompt/1", "prompt/2"};
  const absl::StatusOr<moonpool::PrefixMatch> match = client.MatchPrefix(wanted);
  if (!match.ok()) return match.status();
  std::cout << match->matched << " of " << wanted.size() << " blocks need not be computed\n";

  for (size_t i = 0; i < match->matched; ++i) {
    std::vector<std::byte> block(match->sizes[i]);
    const absl::StatusOr<size_t> read = client.Get(wanted[i], absl::MakeSpan(block));
    if (!read.ok()) return read.status();
    std::cout << wanted[i] << ": " << *read << " bytes\n";
  }
  // A miss is an answer, not a failure. It says why.
  std::cout << "the next: " << moonpool::Describe(match->miss) << "\n";
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: moonpool-example HOST:PORT of the master\n";
    return 2;
  }
  const absl::Status status = Run(argv[1]);
  if (status.ok()) return 0;
  std::cerr << "moonpool-example: " << moonpool::Describe(status) << "\n";
  return 1;
}
