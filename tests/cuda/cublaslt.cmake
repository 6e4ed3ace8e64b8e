# A fake of cuBLASLt for cuda/blas, which works with the fake of the driver.
add_library(fake_cublaslt SHARED cuda/fake_cublaslt.c)
set_target_properties(fake_cublaslt PROPERTIES OUTPUT_NAME cublasLt SOVERSION 13
  LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/fake_cublaslt)
target_include_directories(fake_cublaslt PRIVATE ${CMAKE_CURRENT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/src)
target_compile_definitions(fake_cublaslt PRIVATE _GNU_SOURCE)
target_link_libraries(fake_cublaslt PRIVATE hodu_warnings ${CMAKE_DL_LIBS})
foreach(test test_cuda_blas test_cuda_epilogues)
  if(TARGET ${test})
    add_dependencies(${test} fake_cublaslt)
    target_compile_definitions(${test} PRIVATE FAKE_CUBLASLT="$<TARGET_FILE:fake_cublaslt>")
  endif()
endforeach()

# On a GPU, products once more without the library.
if(TARGET test_cuda_products)
  add_test(NAME cuda/products-without-cublaslt COMMAND test_cuda_products)
  set_tests_properties(cuda/products-without-cublaslt PROPERTIES TIMEOUT 1200 SKIP_RETURN_CODE 77
    ENVIRONMENT HODU_CUBLASLT=none)
endif()
