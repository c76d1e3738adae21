// What one thing is made of, for people: a name and a value per line, long values wrapped beneath
// themselves.
//
//   Fields fields;
//   fields.Add("nodes", "3 up of 3 known");
//   fields.Print(stdout);
#pragma once

#include <cstdio>
#include <string>
#include <utility>
#include <vector>

namespace moonpool::cli {

class Fields {
 public:
  // Every line starts with `indent` spaces.
  explicit Fields(size_t indent = 0) : indent_(indent) {}

  void Add(std::string name, std::string value);

  // Lines of at most `width` characters, unless the names leave no room at all; 0 = no limit.
  std::string Render(size_t width) const;
  void Print(FILE* to) const;

 private:
  size_t indent_;
  std::vector<std::pair<std::string, std::string>> rows_;
};

}  // namespace moonpool::cli
