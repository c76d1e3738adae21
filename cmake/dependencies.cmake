# Everything comes from Debian 12 packages (tools/packages.txt). Imported targets are GLOBAL, so any
# folder may link them by name: gRPC::grpc++, protobuf::libprotobuf, absl::*, spdlog::spdlog,
# CLI11::CLI11, nlohmann_json::nlohmann_json, LibLZMA::LibLZMA, PkgConfig::{xxhash,numa}, GTest::gtest.
# toml++ (header-only here), prometheus-cpp::core, PkgConfig::httplib, PkgConfig::rocksdb and PkgConfig::zmq
# have one user each: common/config, common/metrics, common/http, master/meta, cli/kv_events.

set(CMAKE_FIND_PACKAGE_TARGETS_GLOBAL ON)

find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(Protobuf REQUIRED)
find_package(gRPC CONFIG REQUIRED)
find_package(absl CONFIG REQUIRED)
find_package(spdlog CONFIG REQUIRED)
find_package(CLI11 CONFIG REQUIRED)
find_package(nlohmann_json CONFIG REQUIRED)
find_package(LibLZMA REQUIRED)
find_package(prometheus-cpp CONFIG REQUIRED)
pkg_check_modules(xxhash REQUIRED IMPORTED_TARGET GLOBAL libxxhash)
pkg_check_modules(numa REQUIRED IMPORTED_TARGET GLOBAL numa)
pkg_check_modules(httplib REQUIRED IMPORTED_TARGET GLOBAL cpp-httplib)
pkg_check_modules(zmq REQUIRED IMPORTED_TARGET GLOBAL libzmq)
pkg_check_modules(rocksdb REQUIRED IMPORTED_TARGET GLOBAL rocksdb)

if(MOONPOOL_TESTS)
  find_package(GTest REQUIRED)
endif()
