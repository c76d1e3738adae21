# moonpool_fuzz(NAME frame_fuzz SOURCES frame_fuzz.cc DEPS moonpool::... CORPUS corpus/frame)
# SOURCES define LLVMFuzzerTestOneInput. Under MOONPOOL_LIBFUZZER (the asan preset) the target is a
# libFuzzer program, and its ctest entry replays the corpus and fuzzes for a few seconds. Elsewhere a
# small driver replays the corpus and some deterministic mutations of it as an ordinary test.
set(MOONPOOL_FUZZ_SECONDS 10 CACHE STRING "How long one libFuzzer ctest entry runs")

function(moonpool_fuzz)
  if(NOT MOONPOOL_TESTS)
    return()
  endif()
  cmake_parse_arguments(ARG "" "NAME;CORPUS" "SOURCES;DEPS" ${ARGN})
  set(corpus ${CMAKE_CURRENT_SOURCE_DIR}/${ARG_CORPUS})
  add_executable(${ARG_NAME} ${ARG_SOURCES})
  target_include_directories(${ARG_NAME} PRIVATE ${moonpool_SOURCE_DIR})
  target_link_libraries(${ARG_NAME} PRIVATE ${ARG_DEPS} moonpool_executable)
  if(MOONPOOL_LIBFUZZER)
    target_link_options(${ARG_NAME} PRIVATE -fsanitize=fuzzer)
    # libFuzzer writes what it finds into the first folder: a scratch one, never the corpus.
    set(scratch ${CMAKE_CURRENT_BINARY_DIR}/${ARG_NAME}.found)
    file(MAKE_DIRECTORY ${scratch})
    add_test(NAME ${ARG_NAME}
             COMMAND ${ARG_NAME} -max_total_time=${MOONPOOL_FUZZ_SECONDS} -timeout=10
                     -rss_limit_mb=1024 -max_len=65536 -print_final_stats=1
                     -artifact_prefix=${scratch}/ ${scratch} ${corpus})
  else()
    target_sources(${ARG_NAME} PRIVATE ${moonpool_SOURCE_DIR}/tests/fuzz/standalone_main.cc)
    add_test(NAME ${ARG_NAME} COMMAND ${ARG_NAME} --mutations=2000 ${corpus})
  endif()
  math(EXPR timeout "60 + ${MOONPOOL_FUZZ_SECONDS}")
  set_tests_properties(${ARG_NAME} PROPERTIES TIMEOUT ${timeout} LABELS fuzz)
endfunction()
