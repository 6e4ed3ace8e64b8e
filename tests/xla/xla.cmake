# A plugin that is no good, and a library that is none, for xla/plugin.
add_library(fake_plugin MODULE xla/fake_plugin.c)
target_include_directories(fake_plugin PRIVATE ${PROJECT_SOURCE_DIR}/src)
target_compile_definitions(fake_plugin PRIVATE _GNU_SOURCE)
target_link_libraries(fake_plugin PRIVATE hodu_warnings)
add_dependencies(test_xla_plugin fake_plugin)
target_compile_definitions(test_xla_plugin PRIVATE FAKE_PLUGIN="$<TARGET_FILE:fake_plugin>")

# Where no plugin is found, choosing XLA is an error that changes nothing: once more for who has one.
foreach(pair script/script:test_script_script compile/compile:test_compile_compile
    example/script/compilers:example_script_compilers example/script/compile_options:example_script_compile_options)
  string(REPLACE ":" ";" pair ${pair})
  list(GET pair 0 name)
  list(GET pair 1 target)
  if(NOT TARGET ${target})
    continue() # a build without examples
  endif()
  add_test(NAME no-xla/${name} COMMAND ${target})
  set_tests_properties(no-xla/${name} PROPERTIES TIMEOUT 1200
    ENVIRONMENT "XDG_DATA_HOME=/nowhere;HODU_XLA_PLUGIN=;HODU_XLA_PLUGIN_CPU=")
endforeach()
