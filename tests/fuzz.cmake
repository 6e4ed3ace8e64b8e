# The fuzzers of files: as plain programs over their corpus in every build, and for some seconds with libFuzzer where clang
# builds (`make check-clang`, which is part of `.ci/run`). For longer:
#     build/clang/tests/script_fuzz -max_total_time=3600 some/folder tests/script/corpus
if(NOT HODU_FILES)
  return()
endif()
set(HODU_FUZZ_COPIES 2000)
if(HODU_SANITIZE OR CMAKE_CROSSCOMPILING)
  set(HODU_FUZZ_COPIES 300)
endif()

set(HODU_HAS_FUZZER OFF)
if(HODU_SANITIZE OR NOT CMAKE_C_COMPILER_ID MATCHES "Clang")
  message(STATUS "script/fuzz and io/fuzz need clang and no other sanitizer: not built here")
else()
  include(CheckCSourceCompiles)
  set(CMAKE_REQUIRED_FLAGS -fsanitize=fuzzer,address)
  check_c_source_compiles("#include <stddef.h>
int LLVMFuzzerTestOneInput(const unsigned char *b, size_t n); int LLVMFuzzerTestOneInput(const unsigned char *b, size_t n) { return n > 0 && b[0] == 255; }"
    HODU_HAS_LIBFUZZER)
  unset(CMAKE_REQUIRED_FLAGS)
  set(HODU_HAS_FUZZER ${HODU_HAS_LIBFUZZER})
  if(NOT HODU_HAS_LIBFUZZER)
    add_test(NAME script/fuzz COMMAND sh -c "echo 'this clang has no libFuzzer (libclang-rt-dev): nothing was fuzzed'; exit 77")
    set_tests_properties(script/fuzz PROPERTIES SKIP_RETURN_CODE 77 LABELS long) # seen in CTest's summary
  endif()
endif()

# The library once more, instrumented, without its kernels, which have nothing to learn from.
if(HODU_HAS_FUZZER)
  set(HODU_FUZZ_FLAGS -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize=pointer-overflow
    -fno-sanitize-recover=undefined -fno-omit-frame-pointer -g -O1 -UNDEBUG)
  add_library(hodu_fuzzed OBJECT ${HODU_SOURCES})
  add_dependencies(hodu_fuzzed hodu_objects) # generated sources
  target_include_directories(hodu_fuzzed SYSTEM PRIVATE $<TARGET_PROPERTY:hodu_objects,INCLUDE_DIRECTORIES>)
  target_include_directories(hodu_fuzzed PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
  target_compile_definitions(hodu_fuzzed PRIVATE $<TARGET_PROPERTY:hodu_objects,COMPILE_DEFINITIONS>)
  target_compile_options(hodu_fuzzed PRIVATE ${HODU_FUZZ_FLAGS})
  target_link_libraries(hodu_fuzzed PRIVATE hodu_warnings)
  set(HODU_FUZZ_KERNELS)
  foreach(part ${HODU_KERNEL_OBJECTS})
    list(APPEND HODU_FUZZ_KERNELS $<TARGET_OBJECTS:${part}>)
  endforeach()
endif()

# hodu_fuzzer(script/fuzz source corpus seconds [definitions]): tests script/fuzz-corpus and script/fuzz
function(hodu_fuzzer name source corpus seconds)
  string(REGEX REPLACE "[/-]" "_" target ${name})
  add_executable(${target}_corpus ${source})
  target_include_directories(${target}_corpus PRIVATE ${CMAKE_CURRENT_LIST_DIR} ${PROJECT_SOURCE_DIR}/src)
  target_compile_definitions(${target}_corpus PRIVATE _GNU_SOURCE ${ARGN})
  target_link_libraries(${target}_corpus PRIVATE hodu_static hodu_warnings)
  add_test(NAME ${name}-corpus COMMAND ${target}_corpus ${corpus} ${HODU_FUZZ_COPIES})
  set_tests_properties(${name}-corpus PROPERTIES TIMEOUT 600)
  if(NOT HODU_HAS_FUZZER)
    return()
  endif()
  add_executable(${target} ${source} $<TARGET_OBJECTS:hodu_fuzzed> ${HODU_FUZZ_KERNELS} ${HODU_SERVER_BYTES})
  target_include_directories(${target} SYSTEM PRIVATE $<TARGET_PROPERTY:hodu_objects,INCLUDE_DIRECTORIES>)
  target_include_directories(${target} PRIVATE ${CMAKE_CURRENT_LIST_DIR} ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
  target_compile_definitions(${target} PRIVATE HODU_LIBFUZZER $<TARGET_PROPERTY:hodu_objects,COMPILE_DEFINITIONS> ${ARGN})
  target_compile_options(${target} PRIVATE ${HODU_FUZZ_FLAGS})
  target_link_options(${target} PRIVATE -fsanitize=fuzzer,address,undefined)
  target_link_libraries(${target} PRIVATE hodu_warnings Threads::Threads m ${CMAKE_DL_LIBS})
  file(MAKE_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/${target}.found)
  add_test(NAME ${name} COMMAND ${target} -max_total_time=${seconds} -timeout=10 -rss_limit_mb=4096 -max_len=65536
    -artifact_prefix=${CMAKE_CURRENT_BINARY_DIR}/${target}.found/ ${CMAKE_CURRENT_BINARY_DIR}/${target}.found ${corpus})
  set_tests_properties(${name} PROPERTIES TIMEOUT 300 LABELS long)
endfunction()

hodu_fuzzer(script/fuzz script/fuzz_load.c ${CMAKE_CURRENT_LIST_DIR}/script/corpus 25)
foreach(format npy npz safetensors) # the corpus: what NumPy and safetensors wrote for other tests
  file(GLOB samples ${CMAKE_CURRENT_LIST_DIR}/data/io/*.${format})
  file(COPY ${samples} DESTINATION ${CMAKE_CURRENT_BINARY_DIR}/corpus-${format})
  hodu_fuzzer(io/fuzz-${format} io/fuzz_io.c ${CMAKE_CURRENT_BINARY_DIR}/corpus-${format} 10 FORMAT=${format})
endforeach()
