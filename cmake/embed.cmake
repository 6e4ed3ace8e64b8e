# Makes a C file that holds a text file as bytes: hodu_embed(output.c symbol input). Tables that it includes, lines such
# as #include "kernel/draw.def", are part of the text.
function(hodu_embed output symbol input)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${input})
  file(READ ${input} text)
  string(REGEX MATCHALL "#include \"[a-z_/]+\\.def\"" includes "${text}")
  foreach(include IN LISTS includes)
    string(REGEX REPLACE "#include \"(.*)\"" "${PROJECT_SOURCE_DIR}/src/\\1" path "${include}")
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${path})
    file(READ ${path} table)
    string(REPLACE "${include}" "${table}" text "${text}")
  endforeach()
  string(HEX "${text}" bytes)
  string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
  string(REGEX REPLACE "((0x..,){24})" "\\1\n" bytes "${bytes}")
  file(CONFIGURE OUTPUT ${output} @ONLY CONTENT
"#include <stddef.h>
extern const unsigned char @symbol@[];
extern const size_t @symbol@_size;
const unsigned char @symbol@[] = {
@bytes@
};
const size_t @symbol@_size = sizeof @symbol@;
")
endfunction()
