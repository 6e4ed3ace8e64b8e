if(HODU_SANITIZE)
  add_compile_options(-fsanitize=${HODU_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -g)
  add_link_options(-fsanitize=${HODU_SANITIZE})
endif()
