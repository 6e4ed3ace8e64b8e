# Beside the test programs: labels, and the tests of the house itself, which are scripts in structure/.

# Every op with its parameters, from the tables.
if(TARGET test_ops_bad_arguments)
  add_custom_command(OUTPUT ${PROJECT_BINARY_DIR}/generated/calls.def
    COMMAND generate calls.def > ${PROJECT_BINARY_DIR}/generated/calls.def DEPENDS generate)
  target_sources(test_ops_bad_arguments PRIVATE ${PROJECT_BINARY_DIR}/generated/calls.def)
  target_include_directories(test_ops_bad_arguments PRIVATE ${PROJECT_BINARY_DIR}/generated)
endif()

# The tool that writes a file's script as C.
if(HODU_FILES AND NOT CMAKE_CROSSCOMPILING)
  add_test(NAME export/tool COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/export/tool.sh $<TARGET_FILE:hodu-export>
    ${CMAKE_CURRENT_SOURCE_DIR}/data/first.hoduscript ${CMAKE_CURRENT_BINARY_DIR}/export-tool)
endif()

# A test that takes samples has a long form (`make check-long`). Sanitizers leave out what is only numbers at many points,
# or the size of a graph.
set(HODU_TESTS_OF_NUMBERS kernel/math_programs compiler/render_kernel compiler/plan_large xla/unrolled)
foreach(file ${HODU_TEST_FILES})
  file(RELATIVE_PATH relative ${CMAKE_CURRENT_SOURCE_DIR} ${file})
  string(REGEX REPLACE "test_(.*)\\.c$" "\\1" name ${relative})
  file(STRINGS ${file} long REGEX "HODU_LONG|in_full\\(|sampled\\(|sample_step\\(")
  if(long)
    set_property(TEST ${name} APPEND PROPERTY LABELS long)
    set_tests_properties(${name} PROPERTIES TIMEOUT 7200 COST 500) # starts early
  endif()
  if(file IN_LIST HODU_TESTS_WITH_THREADS)
    set_property(TEST ${name} APPEND PROPERTY LABELS threads)
  endif()
  if(name IN_LIST HODU_TESTS_OF_NUMBERS)
    set_property(TEST ${name} APPEND PROPERTY LABELS numbers)
  endif()

  # The ops once more with the plainest kernels, which the machine at hand would otherwise never choose.
  if(name MATCHES "^(ops|device)/" AND NOT HODU_ISAS_BUILT STREQUAL "baseline")
    string(REPLACE "/" "_" target "test_${name}")
    add_test(NAME baseline/${name} COMMAND ${target})
    set_tests_properties(baseline/${name} PROPERTIES TIMEOUT 600 ENVIRONMENT HODU_ISA=baseline LABELS baseline)
  endif()
endforeach()

set(HODU_STRUCTURE ${CMAKE_CURRENT_SOURCE_DIR}/structure)
set(HODU_STRUCTURE_WORK ${CMAKE_CURRENT_BINARY_DIR}/structure)
function(hodu_structure_test name script)
  add_test(NAME structure/${name} COMMAND sh ${HODU_STRUCTURE}/${script} ${ARGN})
  set_tests_properties(structure/${name} PROPERTIES TIMEOUT 300 LABELS structure)
endfunction()

# What makes the process in which LLVM compiles short of memory.
add_library(short_of_memory MODULE compiler/short_of_memory.c)
set_target_properties(short_of_memory PROPERTIES C_VISIBILITY_PRESET default)
target_compile_definitions(short_of_memory PRIVATE _GNU_SOURCE)
add_dependencies(test_compiler_server short_of_memory)
target_compile_definitions(test_compiler_server PRIVATE SHORT_OF_MEMORY="$<TARGET_FILE:short_of_memory>")

if(HODU_CUDA OR HODU_XLA)
  include(cuda/cuda.cmake)
endif()
if(HODU_XLA)
  include(xla/xla.cmake)
endif()
if(HODU_OPENCL)
  include(opencl/opencl.cmake)
endif()
if(HODU_CUDA)
  include(cuda/cublaslt.cmake)
endif()
if(HODU_METAL)
  include(metal/metal.cmake)
endif()
if(HODU_SANITIZE STREQUAL "thread")
  return()
endif()
include(fuzz.cmake)

# What follows compiles with the machine's own compiler and runs what comes out.
if(CMAKE_CROSSCOMPILING)
  get_property(tests DIRECTORY PROPERTY TESTS)
  set_tests_properties(${tests} PROPERTIES TIMEOUT 7200) # an emulator takes its time
  # The same code as kernel/math_programs_unfused there, which has fused multiply-adds, too; at 64 times as many points.
  set_tests_properties(kernel/math_programs PROPERTIES DISABLED ON)
  return()
endif()

include(docs/docs.cmake)

# What follows asks nothing of a running program; sanitizers have no say in it.
if(HODU_SANITIZE)
  return()
endif()

include(embedded/embedded.cmake)

hodu_structure_test(format format.sh ${PROJECT_SOURCE_DIR})
set_tests_properties(structure/format PROPERTIES SKIP_RETURN_CODE 77)
hodu_structure_test(rooms rooms.sh ${PROJECT_SOURCE_DIR}/src)
hodu_structure_test(rooms-can-fail rooms_can_fail.sh ${HODU_STRUCTURE}/rooms.sh ${HODU_STRUCTURE_WORK}/rooms)
file(GENERATE OUTPUT ${PROJECT_BINARY_DIR}/objects.txt CONTENT "$<JOIN:${HODU_ALL_OBJECTS},\n>\n")
hodu_structure_test(rooms-symbols rooms_symbols.sh ${HODU_STRUCTURE}/rooms.sh ${PROJECT_BINARY_DIR}/objects.txt ${CMAKE_NM})
hodu_structure_test(rooms-symbols-can-fail rooms_symbols_can_fail.sh ${HODU_STRUCTURE}/rooms_symbols.sh
  ${HODU_STRUCTURE}/rooms.sh ${HODU_STRUCTURE_WORK}/rooms-symbols ${CMAKE_C_COMPILER} ${CMAKE_NM})
hodu_structure_test(system system.sh ${PROJECT_SOURCE_DIR}/src)
hodu_structure_test(system-can-fail system_can_fail.sh ${HODU_STRUCTURE}/system.sh ${HODU_STRUCTURE_WORK}/system)
hodu_structure_test(door door.sh ${PROJECT_SOURCE_DIR})
hodu_structure_test(tested tested.sh ${PROJECT_SOURCE_DIR})
hodu_structure_test(golden golden.sh ${PROJECT_SOURCE_DIR})
hodu_structure_test(retired retired.sh ${PROJECT_SOURCE_DIR})
hodu_structure_test(named named.sh ${PROJECT_SOURCE_DIR})
hodu_structure_test(named-can-fail named_can_fail.sh ${HODU_STRUCTURE}/named.sh ${HODU_STRUCTURE_WORK}/named)
hodu_structure_test(pages pages.sh ${PROJECT_SOURCE_DIR})
hodu_structure_test(pages-can-fail pages_can_fail.sh ${HODU_STRUCTURE}/pages.sh ${HODU_STRUCTURE_WORK}/pages)
hodu_structure_test(generated generated.sh $<TARGET_FILE:generate> ${PROJECT_SOURCE_DIR})
hodu_structure_test(symbols symbols.sh $<TARGET_FILE:hodu> $<TARGET_FILE:hodu_static> ${PROJECT_SOURCE_DIR}/include ${CMAKE_C_COMPILER})
hodu_structure_test(setup setup.sh ${PROJECT_SOURCE_DIR}/scripts/setup ${HODU_STRUCTURE_WORK}/setup)
hodu_structure_test(get-xla get_xla.sh ${PROJECT_SOURCE_DIR}/scripts/get-xla ${HODU_STRUCTURE_WORK}/get-xla)

if(CMAKE_C_COMPILER_ID STREQUAL GNU AND CMAKE_C_COMPILER_VERSION VERSION_GREATER_EQUAL 12 AND "avx2" IN_LIST HODU_ISAS_BUILT)
  hodu_structure_test(vectorised vectorised.sh ${PROJECT_SOURCE_DIR} ${CMAKE_C_COMPILER})
endif()

# With every compiler of the machine: `scripts/setup --hostile` sees to it that both are there.
foreach(pair gcc:g++ clang:clang++)
  string(REPLACE ":" ";" pair ${pair})
  list(GET pair 0 c)
  list(GET pair 1 cxx)
  find_program(HODU_TEST_${c} ${c})
  find_program(HODU_TEST_${cxx} ${cxx})
  mark_as_advanced(HODU_TEST_${c} HODU_TEST_${cxx})
  if(HODU_TEST_${c} AND HODU_TEST_${cxx})
    hodu_structure_test(headers-${c} headers.sh ${PROJECT_SOURCE_DIR}/include ${c} ${cxx})
    hodu_structure_test(install-${c} install.sh ${PROJECT_BINARY_DIR} ${HODU_STRUCTURE_WORK}/install-${c} ${c} ${cxx})
  else()
    message(STATUS "No ${c} and ${cxx} here: the headers and the installed copy are not tested with them")
  endif()
endforeach()

if(CMAKE_C_COMPILER_ID STREQUAL GNU) # it builds the library anew: once is enough
  hodu_structure_test(new-op new_op.sh ${PROJECT_SOURCE_DIR} ${HODU_STRUCTURE_WORK}/new-op)
  hodu_structure_test(new-primitive new_primitive.sh ${PROJECT_SOURCE_DIR} ${HODU_STRUCTURE_WORK}/new-primitive)
  set_tests_properties(structure/new-op structure/new-primitive PROPERTIES COST 1000 RESOURCE_LOCK builds)
endif()
