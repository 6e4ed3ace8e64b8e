# Fakes for cuda/blas: cuBLASLt, and a driver whose device has the host's memory, which is found by its name.
add_library(fake_cublaslt SHARED cuda/fake_cublaslt.c)
set_target_properties(fake_cublaslt PROPERTIES OUTPUT_NAME cublasLt SOVERSION 13
  LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/fake_cublaslt)
add_library(host_driver SHARED cuda/host_driver.c)
set_target_properties(host_driver PROPERTIES OUTPUT_NAME cuda SOVERSION 1
  LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/host_driver)
foreach(name fake_cublaslt host_driver)
  target_include_directories(${name} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(${name} PRIVATE hodu_warnings)
  if(TARGET test_cuda_blas)
    add_dependencies(test_cuda_blas ${name})
    string(TOUPPER ${name} NAME)
    target_compile_definitions(test_cuda_blas PRIVATE ${NAME}="$<TARGET_FILE:${name}>")
  endif()
endforeach()
