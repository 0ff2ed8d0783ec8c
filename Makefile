# The commands of a person at a terminal. CMake does the building (CMakePresets.json); tools/setup.sh installs what is missing.
.PHONY: build tests test long examples asan asan-rooms tsan fuzz coverage format style setup setup-tests clean
.DEFAULT_GOAL := build

CTEST = ctest --output-on-failure -j $(shell nproc)

build: setup           ## build/release/partita and what it loads
	@cmake --preset release --log-level=WARNING
	cmake --build --preset program

tests: setup-tests     ## the program, and the programs of the tests
	@cmake --preset release --log-level=WARNING
	cmake --build --preset release

test: tests            ## the tests, without those labelled long
	$(CTEST) --test-dir build/release -LE long

ifneq ($(wildcard tools/demo.sh),)
.PHONY: demo
demo: build            ## plans, simulates and trains a real model on 4 devices
	@tools/demo.sh
endif

long: tests            ## the tests labelled long (hours)
	$(CTEST) --test-dir build/release -L long

examples: setup-tests build  ## runs the exporting scripts of examples/, and trains what they write for a few steps
	tools/examples.sh

asan: setup-tests  ## the quick tests under AddressSanitizer and UndefinedBehaviorSanitizer (an hour)
	@cmake --preset asan --log-level=WARNING
	cmake --build --preset asan
	$(CTEST) --test-dir build/asan -L quick

# Those that see bytes as numbers, or read what others wrote.
ASAN_ROOMS = base network solver tdl sharding physical runtime onnx kernels_checks
asan-rooms: setup-tests  ## the same of these rooms alone, which is what CI has time for
	@cmake --preset asan --log-level=WARNING
	cmake --build --preset asan --target $(ASAN_ROOMS:%=partita_%_test)
	$(CTEST) --test-dir build/asan -L quick -R '^($(subst $() ,|,$(ASAN_ROOMS)))[.]'

tsan: setup-tests  ## the runtime's quick tests under ThreadSanitizer
	@cmake --preset tsan --log-level=WARNING
	cmake --build --preset tsan
	$(CTEST) --test-dir build/tsan -L quick

coverage: setup-tests  ## line coverage of the quick tests, by room; ROOMS="tdl graph": of these rooms' tests alone
	@cmake --preset coverage --log-level=WARNING
	cmake --build --preset coverage $(foreach room,$(subst /,_,$(ROOMS)),--target partita_$(room)_test)
	tools/coverage.py $(ROOMS)

SECONDS = 10
fuzz:                  ## the readers of files, each on inputs that clang's libFuzzer finds, for SECONDS; SEED repeats a run's seed
	@tools/setup.sh --fuzz
	@cmake --preset fuzz --log-level=WARNING
	cmake --build --preset fuzz
	tools/fuzz.py --seconds $(SECONDS) $(SEED:%=--seed %)

format:                ## clang-format over everything
	@tools/setup.sh --style
	git ls-files '*.h' '*.cc' | xargs clang-format-14 -i

style: build           ## fails where something is not formatted, and on clang-tidy's errors; its warnings are printed
	@tools/setup.sh --style
	tools/check_format.sh
	tools/tidy.py

setup:
	@tools/setup.sh

setup-tests:
	@tools/setup.sh --tests

clean:                 ## removes what was built, keeps .deps/
	rm -rf build
