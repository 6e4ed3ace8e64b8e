# The library: everything but kernels is built once; kernels once per instruction set, elementwise ones also per type.
file(GLOB HODU_SOURCES CONFIGURE_DEPENDS
  ${PROJECT_SOURCE_DIR}/src/core/*.c
  ${PROJECT_SOURCE_DIR}/src/kernel/*.c
  ${PROJECT_SOURCE_DIR}/src/ops/*.c
  ${PROJECT_SOURCE_DIR}/src/device/cpu/*.c
  ${PROJECT_SOURCE_DIR}/src/device/cuda/*.c
  ${PROJECT_SOURCE_DIR}/src/device/*.c ${PROJECT_SOURCE_DIR}/src/device/opencl/*.c
  ${PROJECT_SOURCE_DIR}/src/device/metal/*.c
  ${PROJECT_SOURCE_DIR}/src/grad/*.c
  ${PROJECT_SOURCE_DIR}/src/graph/*.c
  ${PROJECT_SOURCE_DIR}/src/script/*.c
  ${PROJECT_SOURCE_DIR}/src/codegen/*.c
  ${PROJECT_SOURCE_DIR}/src/fuse/*.c
  ${PROJECT_SOURCE_DIR}/src/plan/*.c
  ${PROJECT_SOURCE_DIR}/src/machine/*.c
  ${PROJECT_SOURCE_DIR}/src/export/*.c
  ${PROJECT_SOURCE_DIR}/src/xla/*.c
  ${PROJECT_SOURCE_DIR}/src/nn/*.c
  ${PROJECT_SOURCE_DIR}/src/optim/*.c
  ${PROJECT_SOURCE_DIR}/src/io/*.c
  ${PROJECT_SOURCE_DIR}/src/watch/*.c
  ${PROJECT_SOURCE_DIR}/src/data/*.c
  ${PROJECT_SOURCE_DIR}/src/model/*.c
  ${PROJECT_SOURCE_DIR}/src/library/*.c)
list(FILTER HODU_SOURCES EXCLUDE REGEX "/kernels_[a-z]+\\.c$")

# XLA needs nothing here: its plugin is opened when a script is first compiled by it. Without it choosing XLA gives an
# error that says so.
option(HODU_XLA "Compile scripts by XLA, where its plugin is installed" ON)
if(NOT HODU_XLA)
  list(FILTER HODU_SOURCES EXCLUDE REGEX "/src/xla/")
endif()

# CUDA needs nothing here: its driver is opened when somebody first asks for its devices, which XLA does, too.
option(HODU_CUDA "Devices of CUDA, where there is a driver" ON)
if(NOT HODU_CUDA)
  list(FILTER HODU_SOURCES EXCLUDE REGEX "/src/device/cuda/(driver|status|memory|recording|library|program|blas|cuda_device)\\.c$")
endif()

# OpenCL needs nothing here either: its loader is opened when somebody first asks for its devices.
option(HODU_OPENCL "Devices of OpenCL, where there is a driver" ON)
if(NOT HODU_OPENCL)
  list(FILTER HODU_SOURCES EXCLUDE REGEX "/src/device/opencl/")
endif()

# Nor does Metal, whose frameworks are opened likewise; where there are none, its device says that this is not macOS.
option(HODU_METAL "Devices of Metal, on macOS" ON)
if(NOT HODU_METAL)
  list(FILTER HODU_SOURCES EXCLUDE REGEX "/src/device/metal/")
endif()
if(NOT HODU_CUDA AND NOT HODU_OPENCL AND NOT HODU_METAL)
  list(FILTER HODU_SOURCES EXCLUDE REGEX "/src/machine/gpu")
endif()

# The C renderer's preamble is the C reading of the vocabulary itself.
include(${PROJECT_SOURCE_DIR}/cmake/embed.cmake)
hodu_embed(${PROJECT_BINARY_DIR}/generated/words_text.c hd_words_text ${PROJECT_SOURCE_DIR}/src/kernel/words_c.h)
hodu_embed(${PROJECT_BINARY_DIR}/generated/kernel_text.c hd_kernel_text ${PROJECT_SOURCE_DIR}/src/kernel/kernel_c.h)
hodu_embed(${PROJECT_BINARY_DIR}/generated/draw_text.c hd_draw_text ${PROJECT_SOURCE_DIR}/src/kernel/draw_c.h)
hodu_embed(${PROJECT_BINARY_DIR}/generated/small_text.c hd_small_text ${PROJECT_SOURCE_DIR}/src/core/small_float.h)
foreach(dialect opencl cuda metal c)
  hodu_embed(${PROJECT_BINARY_DIR}/generated/${dialect}_text.c hd_${dialect}_text
    ${PROJECT_SOURCE_DIR}/src/kernel/dialect_${dialect}.h)
  list(APPEND HODU_SOURCES ${PROJECT_BINARY_DIR}/generated/${dialect}_text.c)
endforeach()
hodu_embed(${PROJECT_BINARY_DIR}/generated/panels_text.c hd_c_panels_text ${PROJECT_SOURCE_DIR}/src/export/panels.h)
list(APPEND HODU_SOURCES ${PROJECT_BINARY_DIR}/generated/panels_text.c)
file(GLOB HODU_TEMPLATES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/kernel/template_*.h)
foreach(file ${HODU_TEMPLATES})
  get_filename_component(name ${file} NAME_WE)
  hodu_embed(${PROJECT_BINARY_DIR}/generated/${name}_text.c hd_${name}_text ${file})
  list(APPEND HODU_SOURCES ${PROJECT_BINARY_DIR}/generated/${name}_text.c)
endforeach()
list(APPEND HODU_SOURCES ${PROJECT_BINARY_DIR}/generated/words_text.c ${PROJECT_BINARY_DIR}/generated/kernel_text.c
  ${PROJECT_BINARY_DIR}/generated/small_text.c ${PROJECT_BINARY_DIR}/generated/draw_text.c)

# What machine code follows from: part of the name of every entry in the disk cache.
file(GLOB HODU_COMPILER_FILES CONFIGURE_DEPENDS 
  ${PROJECT_SOURCE_DIR}/src/kernel/*.[ch] ${PROJECT_SOURCE_DIR}/src/kernel/*.def ${PROJECT_SOURCE_DIR}/src/codegen/*.[ch]
  ${PROJECT_SOURCE_DIR}/src/fuse/*.[ch] ${PROJECT_SOURCE_DIR}/src/plan/*.[ch] ${PROJECT_SOURCE_DIR}/src/machine/*.[ch])
list(APPEND HODU_COMPILER_FILES ${PROJECT_SOURCE_DIR}/src/core/small_float.h)
list(JOIN HODU_COMPILER_FILES "|" HODU_COMPILER_FILES_JOINED)
add_custom_command(OUTPUT ${PROJECT_BINARY_DIR}/generated/fingerprint.c
  COMMAND ${CMAKE_COMMAND} -DOUTPUT=${PROJECT_BINARY_DIR}/generated/fingerprint.c "-DFILES=${HODU_COMPILER_FILES_JOINED}"
          -P ${PROJECT_SOURCE_DIR}/cmake/fingerprint.cmake
  DEPENDS ${HODU_COMPILER_FILES} ${PROJECT_SOURCE_DIR}/cmake/fingerprint.cmake VERBATIM)
list(APPEND HODU_SOURCES ${PROJECT_BINARY_DIR}/generated/fingerprint.c)

# Never -ffast-math: NaN, infinities and signed zeros survive, and the caller's rounding flags stay his.
set(HODU_KERNEL_OPTIMIZE -O3 CACHE STRING "How hard to optimise kernels; less builds faster")
set(HODU_KERNEL_FLAGS ${HODU_KERNEL_OPTIMIZE} -fno-math-errno -fno-trapping-math -ffp-contract=fast -fopenmp-simd)
if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
  list(APPEND HODU_KERNEL_FLAGS -fno-thread-jumps) # it takes limits to a range apart into branches
endif()

# The best that the machine has is chosen at run time.
set(HODU_FLAGS_baseline "")
set(HODU_ISAS_HERE baseline)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  list(APPEND HODU_ISAS_HERE avx2 avx512)
  set(HODU_FLAGS_avx2 -mavx2 -mfma -mbmi2)
  set(HODU_FLAGS_avx512 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx2 -mfma -mbmi2 -mprefer-vector-width=512)
  include(CheckCCompilerFlag)
  check_c_compiler_flag(-mamx-bf16 HODU_COMPILER_HAS_AMX)
  if(HODU_COMPILER_HAS_AMX) # a matrix unit beside avx512
    list(APPEND HODU_ISAS_HERE amx)
    set(HODU_FLAGS_amx ${HODU_FLAGS_avx512} -mamx-tile -mamx-bf16)
  endif()
endif()
set(HODU_ISAS "${HODU_ISAS_HERE}" CACHE STRING "Instruction sets to build kernels for; baseline is always one")
set(HODU_ISAS_BUILT baseline)
foreach(isa ${HODU_ISAS})
  if(isa IN_LIST HODU_ISAS_HERE)
    list(APPEND HODU_ISAS_BUILT ${isa}) # sets that this processor family does not have are left out
  endif()
endforeach()
list(REMOVE_DUPLICATES HODU_ISAS_BUILT)

set(HODU_KERNEL_OBJECTS)
function(hodu_add_kernels target isa)
  add_library(${target} OBJECT ${ARGN})
  target_compile_definitions(${target} PRIVATE HD_ISA=${isa})
  target_compile_options(${target} PRIVATE ${HODU_KERNEL_FLAGS} ${HODU_FLAGS_${isa}})
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(${target} PRIVATE hodu_warnings)
  set(HODU_KERNEL_OBJECTS ${HODU_KERNEL_OBJECTS} ${target} PARENT_SCOPE)
endfunction()
if("amx" IN_LIST HODU_ISAS_BUILT)
  hodu_add_kernels(hodu_kernels_amx amx ${PROJECT_SOURCE_DIR}/src/device/cpu/kernels_amx.c)
endif()
set_source_files_properties(${PROJECT_SOURCE_DIR}/src/device/cpu/kernels_update.c
  PROPERTIES COMPILE_OPTIONS -ffp-contract=off) # what ops round, it rounds
foreach(isa ${HODU_ISAS_BUILT})
  if(isa STREQUAL "amx")
    continue()
  endif()
  hodu_add_kernels(hodu_kernels_${isa} ${isa}
    ${PROJECT_SOURCE_DIR}/src/device/cpu/kernels_memory.c
    ${PROJECT_SOURCE_DIR}/src/device/cpu/kernels_gemm.c
    ${PROJECT_SOURCE_DIR}/src/device/cpu/kernels_norm.c
    ${PROJECT_SOURCE_DIR}/src/device/cpu/kernels_patch.c
    ${PROJECT_SOURCE_DIR}/src/device/cpu/kernels_winograd.c
    ${PROJECT_SOURCE_DIR}/src/device/cpu/kernels_attention.c
    ${PROJECT_SOURCE_DIR}/src/device/cpu/kernels_random.c
    ${PROJECT_SOURCE_DIR}/src/device/cpu/kernels_scan.c
    ${PROJECT_SOURCE_DIR}/src/device/cpu/kernels_update.c)
  foreach(type b8 u8 u16 u32 u64 i8 i16 i32 i64 f32 f64)
    hodu_add_kernels(hodu_kernels_${isa}_${type} ${isa} ${PROJECT_SOURCE_DIR}/src/device/cpu/kernels_elementwise.c)
    target_compile_definitions(hodu_kernels_${isa}_${type} PRIVATE T=${type})
  endforeach()
  foreach(type f32 f64)
    hodu_add_kernels(hodu_derivatives_${isa}_${type} ${isa} ${PROJECT_SOURCE_DIR}/src/device/cpu/kernels_derivative.c)
    target_compile_definitions(hodu_derivatives_${isa}_${type} PRIVATE T=${type})
  endforeach()
endforeach()

add_library(hodu_objects OBJECT ${HODU_SOURCES})
target_include_directories(hodu_objects PUBLIC ${PROJECT_SOURCE_DIR}/include PRIVATE ${PROJECT_SOURCE_DIR}/src)
target_link_libraries(hodu_objects PRIVATE hodu_warnings Threads::Threads)
target_compile_definitions(hodu_objects PRIVATE HD_UNCHECKED_CALLS) # it defines what macros would wrap
foreach(isa ${HODU_ISAS_BUILT})
  string(TOUPPER ${isa} ISA)
  target_compile_definitions(hodu_objects PRIVATE HD_HAS_${ISA}=1) # HD_HAS_AVX2: see src/device/cpu/cpu.c
endforeach()

set(HODU_ALL_OBJECTS $<TARGET_OBJECTS:hodu_objects>)
foreach(part ${HODU_KERNEL_OBJECTS})
  list(APPEND HODU_ALL_OBJECTS $<TARGET_OBJECTS:${part}>)
endforeach()

# .hoduscript files: without them hd_script_save and hd_script_load give an error that says so. Of xxhash only the header
# is used, and only here: nothing is linked.
option(HODU_FILES "Save and load scripts (needs xxhash.h)" ON)
if(HODU_FILES)
  find_path(HODU_XXHASH_INCLUDE xxhash.h)
  mark_as_advanced(HODU_XXHASH_INCLUDE)
  if(NOT HODU_XXHASH_INCLUDE)
    message(FATAL_ERROR "xxhash.h is missing: install libxxhash-dev (scripts/setup does), or build with -DHODU_FILES=OFF")
  endif()
  target_include_directories(hodu_objects SYSTEM PRIVATE ${HODU_XXHASH_INCLUDE})
endif()

# Kernels are compiled through LLVM 19. Of it only the headers are needed here: the library is opened when the first kernel
# is compiled. Without them that gives an error that says so, and kernels are compiled with the C compiler.
find_program(HODU_LLVM_CONFIG NAMES llvm-config-19)
if(HODU_LLVM_CONFIG)
  execute_process(COMMAND ${HODU_LLVM_CONFIG} --includedir OUTPUT_VARIABLE HODU_LLVM_HINT OUTPUT_STRIP_TRAILING_WHITESPACE)
endif()
find_path(HODU_LLVM_INCLUDE llvm/Config/llvm-config.h
  PATHS ${HODU_LLVM_HINT} /usr/lib/llvm-19/include /usr/include/llvm-19 NO_DEFAULT_PATH)
mark_as_advanced(HODU_LLVM_CONFIG HODU_LLVM_INCLUDE)
if(HODU_LLVM_INCLUDE AND NOT APPLE) # where no kernels are compiled: see src/codegen/code.c
  set(HODU_LLVM_HERE ON)
else()
  set(HODU_LLVM_HERE OFF)
endif()
option(HODU_LLVM "Compile kernels through LLVM (needs the headers of LLVM 19)" ${HODU_LLVM_HERE})
if(HODU_LLVM)
  if(NOT HODU_LLVM_INCLUDE)
    message(FATAL_ERROR "LLVM's headers are missing: install llvm-19-dev (scripts/setup does), or build with -DHODU_LLVM=OFF")
  endif()
  target_include_directories(hodu_objects SYSTEM PRIVATE ${HODU_LLVM_INCLUDE})
  target_compile_definitions(hodu_objects PRIVATE HD_HAS_LLVM=1)
endif()

# LLVM runs in a process of its own, as it ends its process when memory runs out. The program of that process is made of the
# library's own objects, and lies in the library as bytes: see src/codegen/server.h.
if(HODU_LLVM)
  add_executable(hodu_server ${PROJECT_SOURCE_DIR}/src/codegen/server/main.c
    $<FILTER:$<TARGET_OBJECTS:hodu_objects>,INCLUDE,/codegen/llvm[_a-z]*\\.c|/kernel/ir\\.c|/kernel/programs\\.c|/kernel/kernel\\.c|/core/dtype\\.c|/core/os[_a-z]*\\.c>)
  target_include_directories(hodu_server PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
  target_compile_definitions(hodu_server PRIVATE HD_HAS_LLVM=1)
  target_link_libraries(hodu_server PRIVATE hodu_warnings Threads::Threads m ${CMAKE_DL_LIBS})
  target_link_options(hodu_server PRIVATE -s)
  add_library(hodu_server_bytes OBJECT ${PROJECT_SOURCE_DIR}/src/codegen/server/embed.c)
  target_include_directories(hodu_server_bytes PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
  target_compile_definitions(hodu_server_bytes PRIVATE HD_SERVER_PROGRAM="$<TARGET_FILE:hodu_server>")
  target_link_libraries(hodu_server_bytes PRIVATE hodu_warnings)
  set_source_files_properties(${PROJECT_SOURCE_DIR}/src/codegen/server/embed.c PROPERTIES OBJECT_DEPENDS
    ${PROJECT_BINARY_DIR}/hodu_server)
  add_dependencies(hodu_server_bytes hodu_server)
  set(HODU_SERVER_BYTES $<TARGET_OBJECTS:hodu_server_bytes>)
  list(APPEND HODU_ALL_OBJECTS ${HODU_SERVER_BYTES})
endif()

add_library(hodu SHARED ${HODU_ALL_OBJECTS})
if(NOT APPLE) # whose linker does all of this unasked, but for the second
  target_link_options(hodu PRIVATE -Wl,-Bsymbolic-functions -Wl,-z,nodelete) # our own calls go straight; workers outlive a dlclose
  if(NOT HODU_SANITIZE)
    target_link_options(hodu PRIVATE -Wl,-z,defs) # a function that a row of the op table asks for, and nobody has
  endif()
endif()
add_library(hodu_static STATIC ${HODU_ALL_OBJECTS})
set_target_properties(hodu PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})
set_target_properties(hodu_static PROPERTIES OUTPUT_NAME hodu)
foreach(library hodu hodu_static)
  target_include_directories(${library} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_link_libraries(${library} PRIVATE Threads::Threads m ${CMAKE_DL_LIBS})
endforeach()
# include/hodu/script.h and device.h say 1 of each; who links a library without one is told.
set(HODU_PARTS_LEFT_OUT "")
foreach(part FILES XLA LLVM CUDA OPENCL METAL)
  if(NOT HODU_${part})
    list(APPEND HODU_PARTS_LEFT_OUT HD_HAS_${part}=0)
  endif()
endforeach()
foreach(target hodu_objects hodu hodu_static)
  target_compile_definitions(${target} PUBLIC ${HODU_PARTS_LEFT_OUT})
endforeach()
add_library(hodu::hodu ALIAS hodu)
add_library(hodu::hodu_static ALIAS hodu_static)

# What follows from the op tables; `make generate` writes the committed files.
# It does not link the library, which may not build while ops.h lacks a new row.
add_executable(generate ${PROJECT_SOURCE_DIR}/tools/generate.c ${PROJECT_SOURCE_DIR}/src/core/dtype.c)
target_include_directories(generate PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
target_compile_definitions(generate PRIVATE HD_UNCHECKED_CALLS) # as the library: it has the functions of dtype.c
target_link_libraries(generate PRIVATE hodu_warnings)

# A script's file as C: hd_script_export for who has no program of his own.
add_executable(hodu-export ${PROJECT_SOURCE_DIR}/tools/export.c)
target_link_libraries(hodu-export PRIVATE hodu_static hodu_warnings)
