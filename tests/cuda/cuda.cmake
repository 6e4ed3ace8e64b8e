# CUDA's driver and NVRTC, which fail when they are told to: one that is whole, one that is older, and something else.
# A library is found by its name when one of that name is open already.
foreach(name fake_cuda fake_cuda_old fake_cuda_empty)
  add_library(${name} SHARED cuda/fake_cuda.c)
  set_target_properties(${name} PROPERTIES OUTPUT_NAME cuda SOVERSION 1
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/${name})
  target_include_directories(${name} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/src)
  target_compile_definitions(${name} PRIVATE _GNU_SOURCE FAKE_CUDA_SHIM="${CMAKE_CURRENT_SOURCE_DIR}/cuda")
  target_compile_options(${name} PRIVATE ${HODU_TEST_OPTIMIZE})
  target_link_libraries(${name} PRIVATE hodu_warnings Threads::Threads ${CMAKE_DL_LIBS})
  string(TOUPPER ${name} NAME)
  foreach(test test_cuda_runtime test_cuda_faults test_cuda_eager test_cuda_templates test_cuda_blas test_cuda_dlpack
      test_cuda_epilogues test_xla_devices test_xla_on_device) # of some builds not all are there
    if(TARGET ${test})
      add_dependencies(${test} ${name})
      target_compile_definitions(${test} PRIVATE ${NAME}="$<TARGET_FILE:${name}>")
    endif()
  endforeach()
endforeach()
target_compile_definitions(fake_cuda_old PRIVATE OLD_DRIVER)
target_compile_definitions(fake_cuda_empty PRIVATE WITHOUT_FUNCTIONS)
