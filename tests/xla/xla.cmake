# A plugin that is no good, and a library that is none, for xla/plugin.
add_library(fake_plugin MODULE xla/fake_plugin.c)
target_include_directories(fake_plugin PRIVATE ${PROJECT_SOURCE_DIR}/src)
target_compile_definitions(fake_plugin PRIVATE _GNU_SOURCE)
target_link_libraries(fake_plugin PRIVATE hodu_warnings)
add_dependencies(test_xla_plugin fake_plugin)
target_compile_definitions(test_xla_plugin PRIVATE FAKE_PLUGIN="$<TARGET_FILE:fake_plugin>")
