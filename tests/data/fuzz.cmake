# The fuzzer of CSV, PNG, IDX and tokenizers: as a plain program over its corpus in every build, and for 15 seconds with
# libFuzzer where clang builds and has it (script/fuzz.cmake, included before, looks). For longer:
#     build/clang/tests/data_fuzz -max_total_time=3600 some/folder tests/data/corpus
set(HODU_DATA_CORPUS ${CMAKE_CURRENT_LIST_DIR}/corpus)

add_executable(data_fuzz_corpus ${CMAKE_CURRENT_LIST_DIR}/fuzz_readers.c)
target_compile_definitions(data_fuzz_corpus PRIVATE _GNU_SOURCE)
target_link_libraries(data_fuzz_corpus PRIVATE hodu_static hodu_warnings)
set(HODU_DATA_COPIES 2000)
if(HODU_SANITIZE OR CMAKE_CROSSCOMPILING)
  set(HODU_DATA_COPIES 300)
endif()
add_test(NAME data/fuzz-corpus COMMAND data_fuzz_corpus ${HODU_DATA_CORPUS} ${HODU_DATA_COPIES})
set_tests_properties(data/fuzz-corpus PROPERTIES TIMEOUT 600)

if(NOT HODU_HAS_LIBFUZZER)
  return()
endif()
# The readers once more, instrumented; the rest of the library as it is.
file(GLOB HODU_DATA_SOURCES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/data/*.c)
add_executable(data_fuzz ${CMAKE_CURRENT_LIST_DIR}/fuzz_readers.c ${HODU_DATA_SOURCES})
target_include_directories(data_fuzz PRIVATE ${PROJECT_SOURCE_DIR}/src)
target_compile_definitions(data_fuzz PRIVATE HODU_LIBFUZZER _GNU_SOURCE HD_UNCHECKED_CALLS)
target_compile_options(data_fuzz PRIVATE -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined
  -fno-omit-frame-pointer -g -O1)
target_link_options(data_fuzz PRIVATE -fsanitize=fuzzer,address,undefined)
target_link_libraries(data_fuzz PRIVATE hodu_static hodu_warnings Threads::Threads m ${CMAKE_DL_LIBS})
file(MAKE_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/fuzz-data)
add_test(NAME data/fuzz COMMAND data_fuzz -max_total_time=15 -timeout=10 -rss_limit_mb=2048 -max_len=16384
  -artifact_prefix=${CMAKE_CURRENT_BINARY_DIR}/fuzz-data/ ${CMAKE_CURRENT_BINARY_DIR}/fuzz-data ${HODU_DATA_CORPUS})
set_tests_properties(data/fuzz PROPERTIES TIMEOUT 300 LABELS long)
