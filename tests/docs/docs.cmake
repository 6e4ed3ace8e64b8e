# The pages of docs/guide are programs: every C block in them is compiled, run, and held to what its comments say. A
# page has a translation in docs/guide/ko with the same blocks.
set(HODU_DOCS_FLAGS -O1)
if(HODU_SANITIZE)
  list(APPEND HODU_DOCS_FLAGS -g1 -gz -fsanitize=${HODU_SANITIZE} -fno-sanitize-recover=all)
endif()

function(hodu_docs_test name page)
  add_test(NAME docs/${name} COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/docs/run_blocks.sh ${PROJECT_SOURCE_DIR} ${page}
    $<TARGET_FILE:hodu> ${CMAKE_CURRENT_BINARY_DIR}/docs/${name} ${ARGN} ${CMAKE_C_COMPILER} ${HODU_DOCS_FLAGS})
  # A folder of its own: blocks that write files do not meet those of the translation.
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/docs-run/${name})
  file(MAKE_DIRECTORY ${folder})
  set_tests_properties(docs/${name} PROPERTIES TIMEOUT 900 LABELS docs WORKING_DIRECTORY ${folder})
endfunction()

foreach(page from-pytorch training data files gradient-tape builder-and-script compile own-ops native-code export xla devices cuda)
  hodu_docs_test(${page} docs/guide/${page}.md)
  hodu_docs_test(ko/${page} docs/guide/ko/${page}.md --same-as docs/guide/${page}.md)
endforeach()

# The page of CUDA once more on fakes of its libraries, which run kernels as C++. On them it takes a minute to measure what a
# GPU can do, as profiles ask; and sanitizers say on stderr what they think of its coroutines.
if(HODU_CUDA AND NOT HODU_SANITIZE)
  hodu_docs_test(cuda-on-fake docs/guide/cuda.md --without hd_script_profile)
  set_tests_properties(docs/cuda-on-fake PROPERTIES ENVIRONMENT
    "LD_LIBRARY_PATH=$<TARGET_FILE_DIR:fake_cuda>;FAKE_CUDA=1;HODU_NVRTC=$<TARGET_FILE:fake_cuda>;HODU_CUBLASLT=$<TARGET_FILE:fake_cublaslt>;HODU_CACHE=0")
endif()

# PoCL keeps what it compiles in a folder of this build, and not in the user's.
set_tests_properties(docs/devices PROPERTIES ENVIRONMENT POCL_CACHE_DIR=${CMAKE_CURRENT_BINARY_DIR}/pocl)

# The page that follows one call shows what the compiler prints for AVX2, and through LLVM. It has no translation.
if(HODU_LLVM AND "avx2" IN_LIST HODU_ISAS_BUILT)
  hodu_docs_test(life-of-a-call docs/life-of-a-call.md)
endif()

add_test(NAME docs/can-fail COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/docs/can_fail.sh ${PROJECT_SOURCE_DIR}
  $<TARGET_FILE:hodu> ${CMAKE_CURRENT_BINARY_DIR}/docs/can-fail ${CMAKE_C_COMPILER} ${HODU_DOCS_FLAGS})
set_tests_properties(docs/can-fail PROPERTIES TIMEOUT 300 LABELS docs)
