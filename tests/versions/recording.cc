#include "tests/versions/recording.h"

#include <fstream>
#include <sstream>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/check.h"

namespace moonpool::versions {

void Recording::Add(absl::string_view way, absl::string_view what, absl::string_view bytes) {
  absl::MutexLock lock(&mutex_);
  if (what == "bytes" && !lines_.empty() && lines_.back().way == way) {
    lines_.back().bytes.append(bytes.data(), bytes.size());
    return;
  }
  lines_.push_back({std::string(way), std::string(what), std::string(bytes)});
}

std::string Recording::Text() const {
  std::string text;
  for (const Line& line : lines()) {
    absl::StrAppend(&text, line.way, " ", line.what, " ", absl::BytesToHexString(line.bytes), "\n");
  }
  return text;
}

std::vector<Line> Recording::lines() const {
  absl::MutexLock lock(&mutex_);
  return lines_;
}

std::vector<Line> Recording::Load(const std::string& path) {
  std::ifstream file(path);
  MP_CHECK(file.is_open(), "no recording", path);
  std::vector<Line> lines;
  std::string text;
  while (std::getline(file, text)) {
    std::istringstream words(text);
    Line line;
    std::string hex;
    words >> line.way >> line.what >> hex;
    MP_CHECK(!line.what.empty() && hex.size() % 2 == 0, "no line of a recording", path);
    line.bytes = absl::HexStringToBytes(hex);
    lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace moonpool::versions
