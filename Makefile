# The commands of a person at a terminal. CMake does the building (CMakePresets.json); tools/setup.sh installs what is missing.
.PHONY: build tests test long examples asan asan-rooms tsan fuzz fuzz-long coverage format style tidy checks release-checks
.PHONY: setup setup-tests clean
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

asan: setup-tests  ## the quick tests under AddressSanitizer and UndefinedBehaviorSanitizer
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
# The same seed at every commit: its inputs are then the same too, as many as the time suffices for.
SEED ?= $(if $(CI),1)
fuzz:                  ## the readers of files, each on inputs that clang's libFuzzer finds, for SECONDS; SEED repeats a run's seed
	@tools/setup.sh --fuzz
	@cmake --preset fuzz --log-level=WARNING
	cmake --build --preset fuzz
	tools/fuzz.py --seconds $(SECONDS) $(SEED:%=--seed %)

format:                ## clang-format over everything
	@tools/setup.sh --style
	git ls-files '*.h' '*.cc' | xargs clang-format-14 -i

NEWEST = 60
style: build           ## the format, subjects of commits, and clang-tidy of the NEWEST files that commits changed
	@tools/setup.sh --style
	tools/check_format.sh
	tools/check_subjects.sh
	tools/tidy.py --newest $(NEWEST)

tidy: build            ## clang-tidy of all files; its errors fail, its warnings are printed
	@tools/setup.sh --style
	tools/tidy.py

fuzz-long:             ## make fuzz, ten minutes a target
	$(MAKE) fuzz SECONDS=600

# What CI runs, the same at every commit, and what a person runs before a release. CI has 45 minutes. The minutes are of
# two idle cores and empty caches, estimated from the CPU time of compiling and of parts of the runs.
#   test 21, examples 1, tsan 3, style 2, fuzz 5, asan-rooms 13
CHECKS_EVERY_COMMIT = test examples tsan style fuzz asan-rooms
#   tidy 15, asan 60, coverage 20, fuzz-long 40; long takes hours
CHECKS_BEFORE_A_RELEASE = tidy asan coverage fuzz-long long

checks:                ## CHECKS_EVERY_COMMIT, with their summaries at the end
	@.ci/run $(CHECKS_EVERY_COMMIT)

release-checks:        ## CHECKS_BEFORE_A_RELEASE, likewise
	@.ci/run $(CHECKS_BEFORE_A_RELEASE)

setup:
	@tools/setup.sh

setup-tests:
	@tools/setup.sh --tests

clean:                 ## removes what was built, keeps .deps/
	rm -rf build
