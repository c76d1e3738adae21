# Language level, compiler cache, linker and sanitizers. Everything here holds for every target.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

# base_dir and no hash_dir: a second checkout or preset shares what the first one compiled.
find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${moonpool_SOURCE_DIR}
                                  CCACHE_NOHASHDIR=1 ${CCACHE_PROGRAM})
  set(CMAKE_C_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
endif()

# Debug programs link often, and lld is quick. Not mold: Debian 12's can put thread-local data on an
# unmapped page of the RELRO range, and such a program, one in some hundreds, cannot be started.
find_program(LLD_PROGRAM ld.lld)
if(LLD_PROGRAM)
  add_link_options(-fuse-ld=lld)
endif()

if(BUILD_SHARED_LIBS)
  string(APPEND CMAKE_SHARED_LINKER_FLAGS " -Wl,-z,defs")
endif()

if(MOONPOOL_SANITIZE)
  add_compile_options(-fsanitize=${MOONPOOL_SANITIZE} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${MOONPOOL_SANITIZE})
  if(MOONPOOL_SANITIZE MATCHES "undefined")
    add_compile_options(-fno-sanitize-recover=undefined)
  endif()
endif()

# Libraries under a fuzzer need coverage counters; the fuzzers themselves add the engine.
if(MOONPOOL_LIBFUZZER)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

# What every target of ours is compiled with, and nothing generated or vendored is.
add_library(moonpool_warnings INTERFACE)
target_compile_options(moonpool_warnings INTERFACE -Wall -Wextra -Wshadow -Wconversion)
if(PROJECT_IS_TOP_LEVEL)
  # Whoever builds this inside a project of their own has a compiler that we have not met.
  target_compile_options(moonpool_warnings INTERFACE -Werror)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  # Clang counts signs into -Wconversion, g++ does not: one rule for both.
  target_compile_options(moonpool_warnings INTERFACE -Wno-sign-conversion -Wthread-safety)
endif()

# What every program of ours is linked with, tests and fuzzers too.
add_library(moonpool_executable INTERFACE)
target_link_libraries(moonpool_executable INTERFACE moonpool_warnings)
if(MOONPOOL_SANITIZE MATCHES "thread")
  # It does not follow fences. Ours order what other processes write, of which it sees nothing.
  target_compile_options(moonpool_warnings INTERFACE -Wno-tsan)
  add_library(moonpool_tsan OBJECT ${moonpool_SOURCE_DIR}/tests/tsan/absl_mutex.cc
                                   ${moonpool_SOURCE_DIR}/tests/tsan/grpc_order.cc
                                   ${moonpool_SOURCE_DIR}/tests/tsan/uninstrumented.cc)
  target_sources(moonpool_executable INTERFACE $<TARGET_OBJECTS:moonpool_tsan>)
  target_link_libraries(moonpool_executable INTERFACE absl::synchronization ${CMAKE_DL_LIBS})
endif()
