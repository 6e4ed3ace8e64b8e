# Makes a C file that holds a text file as bytes: hodu_embed(output.c symbol input).
function(hodu_embed output symbol input)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${input})
  file(READ ${input} bytes HEX)
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
