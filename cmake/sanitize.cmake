# Sanitizer builds optimise a little, so that the tests run at a bearable speed. Their reports need names and lines, not
# types and variables: a third of the room on disk, and a test program holds the whole library.
if(HODU_SANITIZE)
  add_compile_options(-fsanitize=${HODU_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -g1 -gz -O1)
  add_link_options(-fsanitize=${HODU_SANITIZE})
endif()
