# Thin names for what cmake --preset, ctest --preset and the scripts in tools/ do.
.DEFAULT_GOAL := help
.PHONY: help setup demo test check format fuzz tidy dev release asan tsan clang shared mutation clean

help:
	@echo 'make demo     install what is missing, build the programs, run a three-node pool'
	@echo 'make test     install what is missing, build, run the tests'
	@echo 'make check    all that is checked before a change lands (sanitizers, clang, fuzz, format)'
	@echo 'make dev      build with tests into build/dev; release: optimised programs'
	@echo '              asan, tsan, clang, shared, mutation: the other presets, built only'
	@echo 'make fuzz     run every fuzzer for a minute (SECONDS=n for longer)'
	@echo 'make format   clang-format on every tracked file; tidy: clang-tidy on the last change'
	@echo 'make setup    install what the build and the tests need; clean: remove build/'

setup:
	@tools/setup.sh build test

demo:
	@tools/setup.sh build
	@cmake --preset release --log-level=WARNING
	@cmake --build --preset release --target moonpool moonpool-master moonpool-node
	@tools/demo.sh

test: setup
	@cmake --preset dev --log-level=WARNING
	@cmake --build --preset dev
	@ctest --preset dev

check:
	@tools/setup.sh build test check
	@tools/check.sh

dev release asan tsan clang shared mutation:
	@cmake --preset $@ --log-level=WARNING
	@cmake --build --preset $@

SECONDS ?= 60
fuzz:
	@cmake --preset asan --log-level=WARNING -DMOONPOOL_FUZZ_SECONDS=$(SECONDS)
	@cmake --build --preset asan
	@ctest --preset asan --label-regex fuzz

# clang-tidy on the sources that differ from the last commit, or on FILES="a.cc b.cc"; slow.
tidy:
	@cmake --preset clang --log-level=WARNING
	@cmake --build --preset clang --target moonpool_generated
	@files="$(FILES)"; clang-tidy -p build/clang --quiet \
	  $${files:-$$(git diff --name-only --diff-filter=d HEAD~1 -- '*.cc')}

format:
	@git ls-files '*.c' '*.cc' '*.h' '*.inc' | xargs -r clang-format -i

clean:
	@rm -rf build
