# Cross-compiling for macOS on Apple's own processors with zig's clang, which brings headers and libraries of that system.
# `scripts/get-zig` puts it into build/zig. Nothing is run: there is no such machine here.
set(CMAKE_SYSTEM_NAME Darwin)
set(CMAKE_SYSTEM_PROCESSOR arm64)
get_filename_component(HODU_ZIG ${CMAKE_CURRENT_LIST_DIR}/../build/zig ABSOLUTE)
set(CMAKE_C_COMPILER ${HODU_ZIG}/commands/cc)
set(CMAKE_CXX_COMPILER ${HODU_ZIG}/commands/c++)
set(CMAKE_AR ${HODU_ZIG}/commands/ar)
set(CMAKE_RANLIB ${HODU_ZIG}/commands/ranlib)
set(CMAKE_INSTALL_NAME_TOOL ${HODU_ZIG}/commands/install_name_tool)
set(CMAKE_OSX_SYSROOT "")
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY) # a program of C++ would have zig build a library of C++ first
set(HODU_XXHASH_INCLUDE ${HODU_ZIG}/headers CACHE PATH "")
