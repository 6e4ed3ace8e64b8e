# Writes a C file with a hash of the files in FILES (separated by |): cmake -DOUTPUT=x.c -DFILES=a|b -P fingerprint.cmake
# Machine code in the disk cache belongs to the very text that made it, also between two releases.
string(REPLACE "|" ";" files "${FILES}")
set(all "")
foreach(file ${files})
  file(SHA256 ${file} hash)
  string(APPEND all ${hash})
endforeach()
string(SHA256 hash "${all}")
string(SUBSTRING ${hash} 0 16 hash)
file(WRITE ${OUTPUT} "extern const char hd_compiler_fingerprint[];\nconst char hd_compiler_fingerprint[] = \"${hash}\";\n")
