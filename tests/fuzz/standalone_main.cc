// Stands in for libFuzzer where the compiler has none: replays every corpus file, then mutations of
// it drawn from a fixed seed, so that a plain ctest run exercises each fuzz target the same way on
// every machine. Usage: NAME [--mutations=N] FOLDER_OR_FILE...

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

using Input = std::vector<uint8_t>;
using Random = std::minstd_rand;

constexpr size_t kInputBytesMax = 64 * 1024;

size_t Below(Random& random, size_t bound) { return static_cast<size_t>(random()) % bound; }

void FlipByte(Random& random, Input& input) {
  if (input.empty()) return;
  input[Below(random, input.size())] ^= static_cast<uint8_t>(1u << Below(random, 8));
}

void SetInterestingByte(Random& random, Input& input) {
  static constexpr uint8_t kBytes[] = {0, 1, 0x7f, 0x80, 0xff, '"', '=', '\n', '[', '.'};
  if (input.empty()) return;
  input[Below(random, input.size())] = kBytes[Below(random, std::size(kBytes))];
}

void Truncate(Random& random, Input& input) {
  if (!input.empty()) input.resize(Below(random, input.size()));
}

void InsertByte(Random& random, Input& input) {
  if (input.size() >= kInputBytesMax) return;
  const auto at = static_cast<std::ptrdiff_t>(Below(random, input.size() + 1));
  input.insert(input.begin() + at, static_cast<uint8_t>(random()));
}

// Splices the tail of another corpus file in: keeps structure that byte noise would destroy.
void Splice(Random& random, Input& input, const Input& other) {
  if (other.empty() || input.empty()) return;
  input.resize(Below(random, input.size()));
  const auto from = static_cast<std::ptrdiff_t>(Below(random, other.size()));
  input.insert(input.end(), other.begin() + from, other.end());
  input.resize(std::min(input.size(), kInputBytesMax));
}

void Mutate(Random& random, Input& input, const Input& other) {
  const size_t steps = 1 + Below(random, 4);
  for (size_t i = 0; i < steps; ++i) {
    switch (Below(random, 5)) {
      case 0: FlipByte(random, input); break;
      case 1: SetInterestingByte(random, input); break;
      case 2: Truncate(random, input); break;
      case 3: InsertByte(random, input); break;
      default: Splice(random, input, other); break;
    }
  }
}

// The heap copy has exactly the input's size, so that AddressSanitizer sees a read past its end.
void RunOne(const Input& input) {
  const Input exact(input);
  LLVMFuzzerTestOneInput(exact.data(), exact.size());
}

bool ReadCorpus(const std::filesystem::path& path, std::vector<std::filesystem::path>& files) {
  std::error_code error;
  if (std::filesystem::is_regular_file(path, error)) {
    files.push_back(path);
    return true;
  }
  for (std::filesystem::directory_iterator it(path, error), end; !error && it != end;
       it.increment(error)) {
    if (it->is_regular_file(error)) files.push_back(it->path());
  }
  return !error;
}

}  // namespace

int main(int argc, char** argv) {
  size_t mutations = 0;
  std::vector<std::filesystem::path> files;
  for (int i = 1; i < argc; ++i) {
    const std::string_view arg = argv[i];
    constexpr std::string_view kMutations = "--mutations=";
    if (arg.substr(0, kMutations.size()) == kMutations) {
      mutations = std::strtoul(argv[i] + kMutations.size(), nullptr, 10);
    } else if (!ReadCorpus(arg, files)) {
      std::fprintf(stderr, "cannot read corpus %s\n", argv[i]);
      return 2;
    }
  }
  if (files.empty()) {
    std::fprintf(stderr, "the corpus is empty\n");
    return 2;
  }
  std::sort(files.begin(), files.end());

  std::vector<Input> corpus;
  for (const auto& file : files) {
    std::ifstream stream(file, std::ios::binary);
    corpus.emplace_back(std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>());
    RunOne(corpus.back());
  }
  RunOne({});
  Random random(1);
  for (size_t i = 0; i < mutations; ++i) {
    Input input = corpus[i % corpus.size()];
    Mutate(random, input, corpus[Below(random, corpus.size())]);
    RunOne(input);
  }
  std::printf("replayed %zu corpus files and %zu mutations\n", corpus.size(), mutations);
  return 0;
}
