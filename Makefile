# The front door: every goal is a line or two over CMake, Ninja and CTest. `make` alone lists the goals.
PREFIX ?= /usr/local
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
CASES ?=
# More for the configure step, e.g. CONFIGURE="-DHODU_ISAS=baseline".
CONFIGURE ?=

configure = cmake --preset $(1) $(CONFIGURE) >build/$(1).log 2>&1 || { cat build/$(1).log; exit 1; }
build = cmake --build --preset $(1) -j $(JOBS) $(if $(2),--target $(2))
test = ctest --preset $(1) -j $(JOBS)

.PHONY: help demo xla check check-hostile check-asan check-tsan check-clang check-minimal check-aarch64 check-embedded check-macos check-models check-gpu check-metal check-opencl check-cuda check-long bench bench-peers bench-cuda generate golden micro micro-dist install format clean setup

help:
	@echo "make demo           set up, build and train a network on handwritten digits (examples/digits.c)"
	@echo "make check          set up, build and run every test"
	@echo "make xla            fetch XLA's plugin for the CPU (PyPI's xla-cpu-pjrt, 63 MB) into the user's data directory"
	@echo "make check-hostile  the tests under asan+ubsan, those with threads under tsan, and all built by clang"
	@echo "make check-minimal  a few tests of a library without XLA, LLVM, files, CUDA, OpenCL and Metal"
	@echo "make check-aarch64  the tests built for AArch64 and run in QEMU (Debian)"
	@echo "make check-embedded exported C without an operating system: on a Cortex-M4 and a RISC-V in QEMU, and under asan here"
	@echo "make check-macos    compiles and links for macOS on Apple's own processors, with PyPI's ziglang; nothing is run"
	@echo "make check-models   files and memory of NumPy, PyTorch and safetensors (PyPI), read and written"
	@echo "make check-gpu      the text of GPUs in full: through OpenCL, Metal's on the CPU, CUDA's compiled by NVRTC (PyPI)"
	@echo "make check-metal    of that, Metal's alone: every row and template and random kernels, compiled as C++ and run on the CPU"
	@echo "make check-opencl   the suites and examples once more, on a device of OpenCL: an hour or so on PoCL the first time"
	@echo "make check-cuda     the same on a CUDA device, with the tests of CUDA; scripts/check-cuda --sanitize: a few under compute-sanitizer"
	@echo "make check-long     the tests that take samples, in full (every f32 bit pattern, all dtypes)"
	@echo "make bench          the benchmarks; CASES=pattern for some of them"
	@echo "make bench-peers    the same cases in NumPy, PyTorch, JAX and onnxruntime beside ours"
	@echo "make bench-cuda     what a CUDA device does beside PyTorch and JAX there; PYTHON=python3 that has them"
	@echo "make micro          the ten micro programs, with a table; make micro-dist writes self-contained copies"
	@echo "make generate       write include/hodu/ops.h, docs/ops.md and docs/dtypes.md from the op tables"
	@echo "make golden         make the golden values of the op tables anew, with PyTorch"
	@echo "make install        into PREFIX (now $(PREFIX)), below DESTDIR when that is set"
	@echo "make format         lay the code out with clang-format"
	@echo "make clean          remove build/"

setup:
	@scripts/setup
	@mkdir -p build

demo: setup
	@$(call configure,release)
	@$(call build,release,example_digits)
	@build/release/examples/example_digits --svg build/digits.svg

xla:
	@scripts/get-xla

check: setup
	@scripts/get-xla --try
	@$(call configure,release)
	@$(call build,release)
	@$(call test,release)

check-hostile:
	@status=0; for goal in asan tsan clang; do echo "==> $$goal"; $(MAKE) --no-print-directory check-$$goal || status=1; done; exit $$status

check-asan check-tsan check-clang: check-%:
	@scripts/setup --hostile
	@mkdir -p build
	@$(call configure,$*)
	@$(call build,$*)
	@$(call test,$*)

check-minimal: setup
	@$(call configure,minimal)
	@$(call build,minimal)
	@$(call test,minimal)

check-aarch64: setup
	@scripts/setup --aarch64
	@$(call configure,aarch64)
	@$(call build,aarch64)
	@$(call test,aarch64)

check-embedded: setup
	@scripts/setup --embedded
	@$(call configure,release)
	@$(call build,release,write_nets)
	@$(call test,release) -L embedded

check-macos: setup
	@scripts/setup --python
	@scripts/get-zig
	@$(call configure,macos)
	@$(call build,macos)
	@scripts/is-macos build/macos/libhodu.dylib build/macos/examples/example_xor build/macos/micro/microgpt

check-models: setup
	@scripts/setup --python
	@test -x .venv/bin/python || python3 -m venv .venv
	@.venv/bin/python -c 'import torch, numpy, safetensors' 2>/dev/null || .venv/bin/python -m pip install torch numpy safetensors
	@$(call configure,release)
	@$(call build,release,hodu)
	@.venv/bin/python tests/io/check_peers.py build/release/libhodu.so

check-gpu: setup
	@$(call configure,release)
	@$(call build,release)
	@HODU_LONG=1 HODU_NVRTC="$$(scripts/get-nvrtc)" ctest --preset release -R '^(opencl|metal|cuda)/'

check-metal: setup
	@$(call configure,release)
	@$(call build,release)
	@HODU_LONG=1 ctest --preset release -R '^metal/'

check-opencl: setup
	@$(call configure,release)
	@$(call build,release)
	@scripts/check-opencl

check-cuda: setup
	@$(call configure,release)
	@$(call build,release)
	@scripts/check-cuda

check-long: setup
	@$(call configure,release)
	@$(call build,release)
	@HODU_LONG=1 $(call test,release) -L long

bench: setup
	@scripts/setup --python
	@$(call configure,release)
	@$(call build,release)
	@scripts/bench "$(CASES)"

bench-peers: setup
	@scripts/setup --python
	@$(call configure,release)
	@$(call build,release)
	@scripts/bench --peers "$(CASES)"

bench-cuda: setup
	@$(call configure,release)
	@$(call build,release,$(addprefix bench_,cuda cuda_process cuda_launch))
	@scripts/bench-cuda "$(CASES)"

micro micro-dist: setup
	@$(call configure,release)
	@$(call build,release,$@)

# The tool needs only the tables, so this works while the library does not build for want of a prototype.
generate: setup
	@$(call configure,release)
	@$(call build,release,generate)
	@scripts/generate build/release/generate

golden: generate
	@scripts/setup --python
	@test -x .venv/bin/python || python3 -m venv .venv
	@.venv/bin/python -c 'import torch, numpy, scipy, safetensors' 2>/dev/null || .venv/bin/python -m pip install torch numpy scipy safetensors
	@build/release/generate rows.json >build/rows.json
	@.venv/bin/python tests/golden/make_golden.py build/rows.json tests/golden/elementwise.txt
	@.venv/bin/python tests/golden/make_families.py
	@.venv/bin/python -W ignore tests/golden/make_gradients.py
	@.venv/bin/python tests/golden/make_layers.py
	@.venv/bin/python -W ignore tests/golden/make_losses.py
	@.venv/bin/python tests/golden/make_metrics.py
	@.venv/bin/python tests/golden/make_optim.py
	@.venv/bin/python tests/golden/make_files.py
	@.venv/bin/python -W ignore tests/golden/make_modules.py
	@.venv/bin/python -W ignore tests/golden/make_curves.py

install: setup
	@$(call configure,release)
	@$(call build,release,hodu hodu_static hodu-export)
	@DESTDIR="$(DESTDIR)" cmake --install build/release --prefix "$(PREFIX)"

format:
	@scripts/setup --format
	@git ls-files -z '*.c' '*.h' '*.cpp' | xargs -0 clang-format -i

clean:
	@rm -rf build
