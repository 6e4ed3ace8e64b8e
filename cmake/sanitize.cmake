# Sanitizer builds optimise a little, so that the tests run at a bearable speed.
if(HODU_SANITIZE)
  add_compile_options(-fsanitize=${HODU_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -g -O1)
  add_link_options(-fsanitize=${HODU_SANITIZE})
endif()
