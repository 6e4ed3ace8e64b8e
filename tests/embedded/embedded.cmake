# The harness for exported code on boards without an operating system, tried on a net and loops by hand, and what is
# exported, run on them. Without compilers or QEMU (scripts/setup --embedded) its tests are skipped; CONTRIBUTING.md says how it is used.
set(HODU_EMBEDDED ${CMAKE_CURRENT_SOURCE_DIR}/embedded)
set(HODU_EMBEDDED_WORK ${CMAKE_CURRENT_BINARY_DIR}/embedded)
function(hodu_embedded_test name script) # of this folder, with its arguments
  add_test(NAME embedded/${name} COMMAND ${HODU_EMBEDDED}/${script} ${ARGN})
  set_tests_properties(embedded/${name} PROPERTIES LABELS embedded TIMEOUT 120 SKIP_RETURN_CODE 77)
endfunction()

set(sample ${HODU_EMBEDDED}/sample/main.c ${HODU_EMBEDDED}/sample/net.c)
set(by_hand ${HODU_EMBEDDED}/count_by_hand.c ${HODU_EMBEDDED}/by_hand.c)
foreach(board cortex-m4 riscv32)
  set(work ${HODU_EMBEDDED_WORK}/${board})
  hodu_embedded_test(sample-${board} same ${board} ${work}/sample.elf ${sample})
  hodu_embedded_test(sample-small-${board} same --optimize -Os ${board} ${work}/sample-small.elf ${sample})
  hodu_embedded_test(by-hand-${board} same ${board} ${work}/by-hand.elf ${by_hand})
  hodu_embedded_test(count-${board} run ${board} ${work}/count.elf ${HODU_EMBEDDED}/count.c)
  hodu_embedded_test(can-fail-${board} can_fail.sh ${board} ${work}/can-fail)
endforeach()
foreach(board host-gcc host-clang)
  set(work ${HODU_EMBEDDED_WORK}/${board})
  hodu_embedded_test(sample-${board} run ${board} ${work}/sample ${sample})
  hodu_embedded_test(can-fail-${board} can_fail.sh ${board} ${work}/can-fail)
endforeach()

# Nets that hodu writes, for speed (compiled with -O2) and for few bytes (small, with -Os), and what their scripts give here.
add_executable(write_nets ${HODU_EMBEDDED}/write_nets.c)
target_link_libraries(write_nets PRIVATE hodu_static hodu_warnings)
target_compile_definitions(write_nets PRIVATE HODU_EXAMPLE_DATA="${PROJECT_SOURCE_DIR}/examples/data")
set(nets ${HODU_EMBEDDED_WORK}/nets)
file(MAKE_DIRECTORY ${HODU_EMBEDDED_WORK}/nets)
add_test(NAME embedded/write-nets COMMAND write_nets ${nets})
set_tests_properties(embedded/write-nets PROPERTIES LABELS embedded TIMEOUT 120 FIXTURES_SETUP embedded-nets)
function(hodu_net_test name) # of hodu_embedded_test, behind write-nets
  hodu_embedded_test(net-${name} ${ARGN})
  set_tests_properties(embedded/net-${name} PROPERTIES FIXTURES_REQUIRED embedded-nets)
endfunction()
foreach(net digits conv gru attention train_sgd train_adam)
  foreach(board cortex-m4 riscv32 host-gcc)
    hodu_net_test(${net}-${board} run --seconds 100 ${board} ${HODU_EMBEDDED_WORK}/${board}/${net}.elf
      ${HODU_EMBEDDED}/compare.c ${nets}/${net}/net.c)
  endforeach()
  foreach(board cortex-m4 riscv32 host-clang)
    hodu_net_test(${net}-small-${board} run --seconds 100 --optimize -Os ${board}
      ${HODU_EMBEDDED_WORK}/${board}/${net}-small.elf ${HODU_EMBEDDED}/compare.c ${nets}/${net}/small/net.c)
  endforeach()
endforeach()
hodu_net_test(can-fail-cortex-m4 nets_can_fail.sh cortex-m4 ${HODU_EMBEDDED_WORK}/cortex-m4/nets-can-fail ${nets})
hodu_net_test(can-fail-host-gcc nets_can_fail.sh host-gcc ${HODU_EMBEDDED_WORK}/host-gcc/nets-can-fail ${nets})
