# PoCL keeps what it compiles in a folder of this build, and not in the user's.
set(HODU_POCL_CACHE ${CMAKE_CURRENT_BINARY_DIR}/pocl)
file(MAKE_DIRECTORY ${HODU_POCL_CACHE})
set_tests_properties(opencl/runtime PROPERTIES ENVIRONMENT POCL_CACHE_DIR=${HODU_POCL_CACHE})
