# The fuzzer of .hoduscript files: as a plain program over its corpus in every build, and for 25 seconds with libFuzzer
# where clang builds (`make check-clang`, which is part of `.ci/run`). For longer:
#     build/clang/tests/script_fuzz -max_total_time=3600 some/folder tests/script/corpus
if(NOT HODU_FILES)
  return()
endif()
set(HODU_FUZZ_CORPUS ${CMAKE_CURRENT_LIST_DIR}/corpus)

add_executable(script_fuzz_corpus ${CMAKE_CURRENT_LIST_DIR}/fuzz_load.c)
target_include_directories(script_fuzz_corpus PRIVATE ${PROJECT_SOURCE_DIR}/src)
target_compile_definitions(script_fuzz_corpus PRIVATE _GNU_SOURCE)
target_link_libraries(script_fuzz_corpus PRIVATE hodu_static hodu_warnings)
set(HODU_FUZZ_COPIES 2000)
if(HODU_SANITIZE OR CMAKE_CROSSCOMPILING)
  set(HODU_FUZZ_COPIES 300)
endif()
add_test(NAME script/fuzz-corpus COMMAND script_fuzz_corpus ${HODU_FUZZ_CORPUS} ${HODU_FUZZ_COPIES})
set_tests_properties(script/fuzz-corpus PROPERTIES TIMEOUT 600)

if(HODU_SANITIZE OR NOT CMAKE_C_COMPILER_ID MATCHES "Clang")
  message(STATUS "script/fuzz needs clang and no other sanitizer: not built here")
  return()
endif()
include(CheckCSourceCompiles)
set(CMAKE_REQUIRED_FLAGS -fsanitize=fuzzer,address)
check_c_source_compiles("#include <stddef.h>
int LLVMFuzzerTestOneInput(const unsigned char *b, size_t n); int LLVMFuzzerTestOneInput(const unsigned char *b, size_t n) { return n > 0 && b[0] == 255; }"
  HODU_HAS_LIBFUZZER)
unset(CMAKE_REQUIRED_FLAGS)
if(NOT HODU_HAS_LIBFUZZER)
  add_test(NAME script/fuzz COMMAND sh -c "echo 'this clang has no libFuzzer (libclang-rt-dev): nothing was fuzzed'; exit 77")
  set_tests_properties(script/fuzz PROPERTIES SKIP_RETURN_CODE 77 LABELS long) # seen in CTest's summary
  return()
endif()

# The library once more, instrumented, without its kernels, which have nothing to learn from.
set(HODU_FUZZ_KERNELS)
foreach(part ${HODU_KERNEL_OBJECTS})
  list(APPEND HODU_FUZZ_KERNELS $<TARGET_OBJECTS:${part}>)
endforeach()
add_executable(script_fuzz ${CMAKE_CURRENT_LIST_DIR}/fuzz_load.c ${HODU_SOURCES} ${HODU_FUZZ_KERNELS} ${HODU_SERVER_BYTES})
add_dependencies(script_fuzz hodu_objects) # generated sources
target_include_directories(script_fuzz SYSTEM PRIVATE $<TARGET_PROPERTY:hodu_objects,INCLUDE_DIRECTORIES>)
target_include_directories(script_fuzz PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
target_compile_definitions(script_fuzz PRIVATE HODU_LIBFUZZER $<TARGET_PROPERTY:hodu_objects,COMPILE_DEFINITIONS>)
target_compile_options(script_fuzz PRIVATE -fsanitize=fuzzer,address,undefined -fno-sanitize=pointer-overflow
  -fno-sanitize-recover=undefined -fno-omit-frame-pointer -g -O1 -UNDEBUG)
target_link_options(script_fuzz PRIVATE -fsanitize=fuzzer,address,undefined)
target_link_libraries(script_fuzz PRIVATE hodu_warnings Threads::Threads m ${CMAKE_DL_LIBS})
file(MAKE_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/fuzz)
add_test(NAME script/fuzz COMMAND script_fuzz -max_total_time=25 -timeout=10 -rss_limit_mb=4096 -max_len=65536
  -artifact_prefix=${CMAKE_CURRENT_BINARY_DIR}/fuzz/ ${CMAKE_CURRENT_BINARY_DIR}/fuzz ${HODU_FUZZ_CORPUS})
set_tests_properties(script/fuzz PROPERTIES TIMEOUT 300 LABELS long)
