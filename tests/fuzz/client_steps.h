// Clients and operators of a MasterScene: requests that could be right, with any field wrong, and
// bytes that are whatever they are.
#pragma once

#include "moonpool/v1/admin.pb.h"
#include "moonpool/v1/master.pb.h"
#include "tests/fuzz/master_scene.h"

namespace moonpool::master {

class ClientSteps {
 public:
  explicit ClientSteps(MasterScene& scene) : scene_(scene), feed_(scene.feed()) {}

  // Any request of any service.
  void Step();
  // What a writer and a reader do all day.
  void PutStep();
  void ReadStep();

 private:
  void ObjectStep();
  void AdminStep();
  // Bytes of the input as a request.
  void RawStep();

  void StartPuts();
  void CommitPuts();
  void AbortPuts();
  void Locate();
  void MatchPrefix();
  void Exists();
  void Remove();
  void ListObjects();
  void OpenNamespace();

  void FillHeader(const std::string& name_space, v1::RequestHeader* header);
  template <typename Request>
  Request OfKeys();

  MasterScene& scene_;
  ByteFeed& feed_;
};

}  // namespace moonpool::master
