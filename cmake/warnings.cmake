# Warnings are errors, in gcc and clang alike.
add_library(hodu_warnings INTERFACE)
target_compile_options(hodu_warnings INTERFACE
  $<$<COMPILE_LANGUAGE:C>:-Wall -Wextra -Wpedantic -Werror -Wswitch-enum -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla>
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Werror>)
