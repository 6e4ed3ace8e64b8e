# The library: everything but kernels is built once; kernels once per instruction set, elementwise ones also per type.
file(GLOB HODU_SOURCES CONFIGURE_DEPENDS
  ${PROJECT_SOURCE_DIR}/src/core/*.c
  ${PROJECT_SOURCE_DIR}/src/kernel/*.c
  ${PROJECT_SOURCE_DIR}/src/ops/*.c
  ${PROJECT_SOURCE_DIR}/src/device/cpu/*.c)
list(FILTER HODU_SOURCES EXCLUDE REGEX "/kernels_[a-z]+\\.c$")

# Never -ffast-math: NaN, infinities and signed zeros survive, and the caller's rounding flags stay his.
set(HODU_KERNEL_FLAGS -O3 -fno-math-errno -fno-trapping-math -ffp-contract=fast)
set(HODU_FLAGS_baseline "")
set(HODU_ISAS baseline)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  list(APPEND HODU_ISAS avx2 avx512)
  set(HODU_FLAGS_avx2 -mavx2 -mfma -mf16c -mbmi2)
  set(HODU_FLAGS_avx512 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx2 -mfma -mf16c -mbmi2 -mprefer-vector-width=512)
endif()

set(HODU_KERNEL_OBJECTS)
foreach(isa ${HODU_ISAS})
  add_library(hodu_kernels_${isa} OBJECT
    ${PROJECT_SOURCE_DIR}/src/device/cpu/kernels_memory.c
    ${PROJECT_SOURCE_DIR}/src/device/cpu/kernels_gemm.c
    ${PROJECT_SOURCE_DIR}/src/device/cpu/kernels_random.c)
  list(APPEND HODU_KERNEL_OBJECTS hodu_kernels_${isa})
  foreach(type b8 u8 u16 u32 u64 i8 i16 i32 i64 f32 f64)
    add_library(hodu_kernels_${isa}_${type} OBJECT ${PROJECT_SOURCE_DIR}/src/device/cpu/kernels_elementwise.c)
    target_compile_definitions(hodu_kernels_${isa}_${type} PRIVATE T=${type})
    list(APPEND HODU_KERNEL_OBJECTS hodu_kernels_${isa}_${type})
  endforeach()
  foreach(part hodu_kernels_${isa} ${HODU_KERNEL_OBJECTS})
    if(part MATCHES "_${isa}(_|$)")
      target_compile_definitions(${part} PRIVATE HD_ISA=${isa})
      target_compile_options(${part} PRIVATE ${HODU_KERNEL_FLAGS} ${HODU_FLAGS_${isa}})
    endif()
  endforeach()
endforeach()
foreach(part ${HODU_KERNEL_OBJECTS})
  target_include_directories(${part} PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(${part} PRIVATE hodu_warnings)
endforeach()

add_library(hodu_objects OBJECT ${HODU_SOURCES})
target_include_directories(hodu_objects PUBLIC ${PROJECT_SOURCE_DIR}/include PRIVATE ${PROJECT_SOURCE_DIR}/src)
target_link_libraries(hodu_objects PRIVATE hodu_warnings Threads::Threads)
target_compile_definitions(hodu_objects PRIVATE _GNU_SOURCE)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  target_compile_definitions(hodu_objects PRIVATE HD_HAS_X86=1)
endif()

set(HODU_ALL_OBJECTS $<TARGET_OBJECTS:hodu_objects>)
foreach(part ${HODU_KERNEL_OBJECTS})
  list(APPEND HODU_ALL_OBJECTS $<TARGET_OBJECTS:${part}>)
endforeach()

add_library(hodu SHARED ${HODU_ALL_OBJECTS})
add_library(hodu_static STATIC ${HODU_ALL_OBJECTS})
set_target_properties(hodu PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})
set_target_properties(hodu_static PROPERTIES OUTPUT_NAME hodu)
foreach(library hodu hodu_static)
  target_include_directories(${library} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_link_libraries(${library} PUBLIC Threads::Threads m ${CMAKE_DL_LIBS})
endforeach()
add_library(hodu::hodu ALIAS hodu)
add_library(hodu::hodu_static ALIAS hodu_static)

# What follows from the op tables; `make generate` writes the committed files.
# It does not link the library, which may not build while ops.h lacks a new row.
add_executable(generate ${PROJECT_SOURCE_DIR}/tools/generate.c ${PROJECT_SOURCE_DIR}/src/core/dtype.c)
target_include_directories(generate PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
target_link_libraries(generate PRIVATE hodu_warnings)
