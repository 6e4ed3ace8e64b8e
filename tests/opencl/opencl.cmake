# PoCL keeps what it compiles in a folder of this build, and not in the user's, and compiles each kernel once instead of
# once more for its first launch: half the time.
set(HODU_POCL_CACHE ${CMAKE_CURRENT_BINARY_DIR}/pocl)
file(MAKE_DIRECTORY ${HODU_POCL_CACHE})
# Of some builds not all of these are there.
foreach(name runtime text eager every_row every_first_call every_second_call every_third_call every_fourth_call
    every_fifth_call every_sixth_call programs scripts products epilogues own_ops templates)
  if(TARGET test_opencl_${name})
    set_tests_properties(opencl/${name} PROPERTIES ENVIRONMENT
      "POCL_CACHE_DIR=${HODU_POCL_CACHE};POCL_WORK_GROUP_SPECIALIZATION=0")
  endif()
endforeach()

# Drivers for opencl/faults: one that fails when it is told to, and one that is something else.
foreach(name fake_opencl fake_opencl_empty)
  add_library(${name} SHARED opencl/fake_opencl.c)
  set_target_properties(${name} PROPERTIES OUTPUT_NAME OpenCL SOVERSION 1
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/${name})
  target_include_directories(${name} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(${name} PRIVATE hodu_warnings)
  string(TOUPPER ${name} NAME)
  if(TARGET test_opencl_faults)
    add_dependencies(test_opencl_faults ${name})
    target_compile_definitions(test_opencl_faults PRIVATE ${NAME}="$<TARGET_FILE:${name}>")
  endif()
endforeach()
target_compile_definitions(fake_opencl_empty PRIVATE WITHOUT_FUNCTIONS)
