# A plugin that is no good, and a library that is none, for xla/plugin, xla/faults and xla/devices.
add_library(fake_plugin MODULE xla/fake_plugin.c)
target_include_directories(fake_plugin PRIVATE ${PROJECT_SOURCE_DIR}/src)
target_compile_definitions(fake_plugin PRIVATE _GNU_SOURCE)
target_link_libraries(fake_plugin PRIVATE hodu_warnings)
foreach(target test_xla_plugin test_xla_faults test_xla_devices)
  if(NOT TARGET ${target})
    continue() # a build of the tests with threads
  endif()
  add_dependencies(${target} fake_plugin)
  target_compile_definitions(${target} PRIVATE FAKE_PLUGIN="$<TARGET_FILE:fake_plugin>")
endforeach()

# A plugin for CUDA that is the one for the CPU, for xla/on_device and, once more without a GPU, xla/cuda.
if(TARGET test_xla_on_device)
  add_library(fake_gpu MODULE xla/fake_gpu.c)
  target_include_directories(fake_gpu PRIVATE ${CMAKE_CURRENT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/src)
  target_compile_definitions(fake_gpu PRIVATE _GNU_SOURCE)
  target_link_libraries(fake_gpu PRIVATE hodu_warnings ${CMAKE_DL_LIBS})
  add_dependencies(test_xla_on_device fake_gpu)
  target_compile_definitions(test_xla_on_device PRIVATE FAKE_GPU="$<TARGET_FILE:fake_gpu>")
  add_test(NAME fake-gpu/xla/cuda COMMAND test_xla_cuda)
  set_tests_properties(fake-gpu/xla/cuda PROPERTIES TIMEOUT 1200 SKIP_RETURN_CODE 77 ENVIRONMENT
    "LD_LIBRARY_PATH=$<TARGET_FILE_DIR:fake_cuda>;FAKE_CUDA=1;HODU_NVRTC=$<TARGET_FILE:fake_cuda>;HODU_CUBLASLT=none;HODU_CACHE=0;HODU_XLA_PLUGIN_CUDA=$<TARGET_FILE:fake_gpu>")
endif()

# Where no plugin is found, choosing XLA is an error that changes nothing: once more for who has one.
foreach(pair script/script:test_script_script model/compile:test_model_compile
    example/script/compilers:example_script_compilers example/script/devices:example_script_devices
    example/script/compile_options:example_script_compile_options)
  string(REPLACE ":" ";" pair ${pair})
  list(GET pair 0 name)
  list(GET pair 1 target)
  if(NOT TARGET ${target})
    continue() # a build without examples, or of the tests with threads
  endif()
  add_test(NAME no-xla/${name} COMMAND ${target})
  set_tests_properties(no-xla/${name} PROPERTIES TIMEOUT 1200
    ENVIRONMENT "XDG_DATA_HOME=/nowhere;HODU_XLA_PLUGIN=;HODU_XLA_PLUGIN_CPU=")
endforeach()

# As on a machine with a GPU where only the plugin for CUDA is installed, which is a fake: examples say what does not work.
if(HODU_EXAMPLES)
  foreach(name devices compilers compile_options)
    add_test(NAME only-cuda/example/script/${name} COMMAND example_script_${name})
    set_tests_properties(only-cuda/example/script/${name} PROPERTIES TIMEOUT 1200 LABELS example ENVIRONMENT
      "LD_LIBRARY_PATH=$<TARGET_FILE_DIR:fake_cuda>;FAKE_CUDA=1;HODU_NVRTC=$<TARGET_FILE:fake_cuda>;HODU_CUBLASLT=none;HODU_CACHE=0;HODU_XLA_PLUGIN=;HODU_XLA_PLUGIN_CPU=/nowhere;HODU_XLA_PLUGIN_CUDA=$<TARGET_FILE:fake_plugin>")
  endforeach()
endif()

# The examples that make scripts, once more under XLA: they compare what comes out with dynamic execution. compilers.c is left
# out, which asks what a change from the default to XLA does, and training.c, whose unrolled loop XLA compiles for more than a
# minute: xla/unrolled has it, and xla/scripts its other half.
if(HODU_EXAMPLES)
  file(GLOB examples CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}/examples
    ${PROJECT_SOURCE_DIR}/examples/*.c ${PROJECT_SOURCE_DIR}/examples/script/*.c)
  list(REMOVE_ITEM examples script/compilers.c script/training.c)
  foreach(file ${examples})
    file(STRINGS ${PROJECT_SOURCE_DIR}/examples/${file} scripts REGEX "hd_builder_build|hd_compile\\(")
    if(NOT scripts)
      continue()
    endif()
    string(REGEX REPLACE "\\.c$" "" name ${file})
    string(REPLACE "/" "_" target example_${name})
    set(folder ${CMAKE_CURRENT_BINARY_DIR}/xla-example/${name}) # of its own: some write files
    file(MAKE_DIRECTORY ${folder})
    add_test(NAME xla/example/${name} COMMAND ${target})
    set_tests_properties(xla/example/${name} PROPERTIES TIMEOUT 1200 LABELS example WORKING_DIRECTORY ${folder}
      ENVIRONMENT HODU_COMPILER=xla SKIP_REGULAR_EXPRESSION "there is no XLA plugin for cpu")
  endforeach()
endif()
