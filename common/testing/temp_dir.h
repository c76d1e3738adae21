// A folder of one test's own, gone with all it holds when the object is.
//
//   const TempDir dir;
//   WriteFile(dir.path() + "/journal", bytes);
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

#include "common/check.h"

namespace moonpool {

// A tmpfs on every Linux, for what must not be on a disk.
inline constexpr char kTmpfs[] = "/dev/shm";

class TempDir {
 public:
  TempDir() : TempDir(std::filesystem::temp_directory_path()) {}
  explicit TempDir(const std::filesystem::path& parent)
      : path_((parent / "moonpool_test_XXXXXX").string()) {
    MP_CHECK(mkdtemp(path_.data()) != nullptr, "no temporary folder", path_);
  }
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace moonpool
