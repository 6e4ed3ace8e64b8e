# The scalar Value engine: a header without a library, its ten programs and its tests. (Its benchmark, bench/value.c, is
# built like every other.)
# HODU_ROOT is the source tree; without it, the directory of the including CMakeLists.txt.
if(NOT DEFINED HODU_ROOT)
  set(HODU_ROOT ${CMAKE_CURRENT_SOURCE_DIR})
endif()

set(HODU_MICRO_PROGRAMS microgpt micrornn microlora microdpo microppo micromoe microkv microquant microbeam microvae)
set(HODU_MICRO_DIR ${CMAKE_BINARY_DIR}/micro)

# Optimised in every kind of build: ten trainings at -O0 would make the tests of a debug build wait.
add_library(hodu_value_flags INTERFACE)
target_include_directories(hodu_value_flags INTERFACE ${HODU_ROOT}/include)
target_compile_options(hodu_value_flags INTERFACE -O2 -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wswitch-enum
  -Wstrict-prototypes -Wmissing-prototypes -Wvla -Werror)
# What newer compilers add to -Wconversion: sizes that are enums, in sums of numbers.
include(CheckCCompilerFlag)
check_c_compiler_flag(-Wenum-float-conversion HODU_COMPILER_WARNS_OF_ENUMS)
if(HODU_COMPILER_WARNS_OF_ENUMS)
  target_compile_options(hodu_value_flags INTERFACE -Wno-enum-float-conversion)
endif()
target_link_libraries(hodu_value_flags INTERFACE m)

foreach(program IN LISTS HODU_MICRO_PROGRAMS)
  add_executable(${program} ${HODU_ROOT}/examples/micro/${program}.c)
  target_link_libraries(${program} PRIVATE hodu_value_flags)
  target_compile_definitions(${program} PRIVATE MICRO_NAMES="${HODU_ROOT}/examples/micro/names.txt")
  set_target_properties(${program} PROPERTIES C_STANDARD 11 C_EXTENSIONS OFF RUNTIME_OUTPUT_DIRECTORY ${HODU_MICRO_DIR})
endforeach()

add_custom_target(micro
  COMMAND sh ${HODU_ROOT}/scripts/micro ${HODU_MICRO_DIR}
  DEPENDS ${HODU_MICRO_PROGRAMS} USES_TERMINAL VERBATIM)

add_custom_target(micro-dist
  COMMAND sh ${HODU_ROOT}/scripts/micro-dist ${HODU_ROOT} ${CMAKE_BINARY_DIR}/micro-dist
  VERBATIM)

if(NOT DEFINED HODU_TESTS OR HODU_TESTS)
  foreach(program IN LISTS HODU_MICRO_PROGRAMS)
    add_test(NAME value/${program} COMMAND ${program})
  endforeach()

  find_package(PkgConfig QUIET)
  if(PkgConfig_FOUND AND NOT TARGET PkgConfig::CMOCKA)
    pkg_check_modules(CMOCKA QUIET IMPORTED_TARGET cmocka)
  endif()
  if(TARGET PkgConfig::CMOCKA)
    find_package(Threads REQUIRED)
    foreach(name engine golden gradcheck memory)
      add_executable(test-value-${name} ${HODU_ROOT}/tests/value/${name}.c)
      target_link_libraries(test-value-${name} PRIVATE hodu_value_flags PkgConfig::CMOCKA Threads::Threads)
      set_target_properties(test-value-${name} PROPERTIES C_STANDARD 11 C_EXTENSIONS OFF)
      add_test(NAME value/${name} COMMAND test-value-${name})
    endforeach()
    target_sources(test-value-engine PRIVATE ${HODU_ROOT}/tests/value/engine_other_file.c)
  else()
    message(STATUS "cmocka not found: the C tests of value.h are not built")
  endif()

  # What plain commands make of the header, in C and C++, and of the programs.
  if(NOT CMAKE_CROSSCOMPILING)
    add_test(NAME value/callouts COMMAND sh ${HODU_ROOT}/tests/value/callouts.sh ${HODU_ROOT})
    add_test(NAME value/flags COMMAND sh ${HODU_ROOT}/tests/value/flags.sh ${HODU_ROOT} ${HODU_MICRO_DIR})
    add_test(NAME value/alone COMMAND sh ${HODU_ROOT}/tests/value/alone.sh ${HODU_ROOT} ${CMAKE_C_COMPILER})
  endif()
endif()
