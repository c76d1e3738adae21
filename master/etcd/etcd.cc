#include "master/etcd/etcd.h"

namespace moonpool::master {

std::string EtcdPrefixEnd(std::string prefix) {
  while (!prefix.empty() && prefix.back() == '\xff') prefix.pop_back();
  if (prefix.empty()) return std::string(1, '\0');  // to etcd: up to the last key there is
  prefix.back() = static_cast<char>(prefix.back() + 1);
  return prefix;
}

}  // namespace moonpool::master
