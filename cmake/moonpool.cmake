# moonpool_library, moonpool_program, moonpool_test: one target per folder, sources listed by name.
include(moonpool_proto)
include(moonpool_fuzz)

# moonpool_library(NAME transport SOURCES a.cc ... HEADERS a.h ... PUBLIC deps... PRIVATE deps...
#                  [TESTONLY] [INCLUDE_ROOT dir])
# Makes moonpool_<name>, alias moonpool::<name>. No SOURCES: header-only. Includes are written from
# the repository root (INCLUDE_ROOT adds one more, for the public SDK). TESTONLY: fakes and matchers,
# absent where tests are not built. PUBLIC is what the headers expose, PRIVATE the rest.
function(moonpool_library)
  cmake_parse_arguments(ARG "TESTONLY" "NAME;INCLUDE_ROOT" "SOURCES;HEADERS;PUBLIC;PRIVATE" ${ARGN})
  if(ARG_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "moonpool_library(${ARG_NAME}): unknown ${ARG_UNPARSED_ARGUMENTS}")
  endif()
  if(ARG_TESTONLY AND NOT MOONPOOL_TESTS)
    return()
  endif()
  set(target moonpool_${ARG_NAME})
  set(scope PUBLIC)
  if(ARG_SOURCES)
    add_library(${target} ${ARG_SOURCES})
    # Without it a shared build compiles with -D<target>_EXPORTS and misses the compiler cache.
    set_target_properties(${target} PROPERTIES DEFINE_SYMBOL "")
    target_link_libraries(${target} PUBLIC ${ARG_PUBLIC} PRIVATE ${ARG_PRIVATE} moonpool_warnings)
  else()
    set(scope INTERFACE)
    add_library(${target} INTERFACE)
    target_link_libraries(${target} INTERFACE ${ARG_PUBLIC} ${ARG_PRIVATE})
  endif()
  add_library(moonpool::${ARG_NAME} ALIAS ${target})
  target_include_directories(${target} ${scope} ${moonpool_SOURCE_DIR} ${ARG_INCLUDE_ROOT})
  if(ARG_HEADERS)
    target_sources(${target} ${scope} FILE_SET HEADERS BASE_DIRS ${moonpool_SOURCE_DIR}
                                      FILES ${ARG_HEADERS})
  endif()
endfunction()

# moonpool_program(NAME moonpool-master SOURCES main.cc DEPS moonpool::...): build/<preset>/bin/NAME
function(moonpool_program)
  cmake_parse_arguments(ARG "" "NAME" "SOURCES;DEPS" ${ARGN})
  add_executable(${ARG_NAME} ${ARG_SOURCES})
  target_include_directories(${ARG_NAME} PRIVATE ${moonpool_SOURCE_DIR})
  target_link_libraries(${ARG_NAME} PRIVATE ${ARG_DEPS} moonpool_executable)
  set_target_properties(${ARG_NAME} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${moonpool_BINARY_DIR}/bin)
endfunction()

# moonpool_test(NAME status_test SOURCES status_test.cc DEPS moonpool::common
#               [LABELS e2e ...] [ARGS --seeds=50 ...] [DEFINES A=1 ...] [TIMEOUT seconds]
#               [RESOURCES lock ...])
# One ctest entry per binary, 60 seconds unless told; RESOURCES name what two tests must not share.
function(moonpool_test)
  if(NOT MOONPOOL_TESTS)
    return()
  endif()
  cmake_parse_arguments(ARG "" "NAME;TIMEOUT" "SOURCES;DEPS;LABELS;ARGS;DEFINES;RESOURCES" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 60)
  endif()
  if(MOONPOOL_SANITIZE)
    math(EXPR ARG_TIMEOUT "4 * ${ARG_TIMEOUT}")
  endif()
  add_executable(${ARG_NAME} ${ARG_SOURCES})
  target_compile_definitions(${ARG_NAME} PRIVATE ${ARG_DEFINES})
  target_include_directories(${ARG_NAME} PRIVATE ${moonpool_SOURCE_DIR})
  target_link_libraries(${ARG_NAME} PRIVATE ${ARG_DEPS} GTest::gmock GTest::gtest_main
                                            moonpool_executable)
  add_test(NAME ${ARG_NAME} COMMAND ${ARG_NAME} ${ARG_ARGS} WORKING_DIRECTORY ${moonpool_BINARY_DIR})
  set_tests_properties(${ARG_NAME} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}"
                                              RESOURCE_LOCK "${ARG_RESOURCES}")
endfunction()
