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

class TempDir {
 public:
  TempDir() : path_((std::filesystem::temp_directory_path() / "moonpool_test_XXXXXX").string()) {
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
