# Warnings are errors, in gcc and clang alike.
add_library(hodu_warnings INTERFACE)
target_compile_options(hodu_warnings INTERFACE
  $<$<COMPILE_LANGUAGE:C>:-Wall -Wextra -Wpedantic -Werror -Wswitch-enum -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla>
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Werror>)
# clang 22 knows __COUNTER__, which every compiler has, as a word of the C after next.
include(CheckCCompilerFlag)
check_c_compiler_flag(-Wc2y-extensions HODU_COMPILER_WARNS_OF_C2Y)
if(HODU_COMPILER_WARNS_OF_C2Y)
  target_compile_options(hodu_warnings INTERFACE $<$<COMPILE_LANGUAGE:C>:-Wno-c2y-extensions>)
endif()
