# Two commands from a clean checkout: `make demo` and `make test`. They need Python >= 3.11 with venv, and no Java.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip install --disable-pip-version-check --quiet --quiet
STAMP := $(VENV)/.installed
TESTED := $(VENV)/.tests-installed
DEMO := demo-run
TIMEOUTS := 0,1ms,5ms,10ms,100ms,-1
FLINK_VERSIONS := 2.3.0 1.20.5
# Packages are installed without byte code: the first run of each writes what it imports, the others are 4 s faster.
unexport PYTHONDONTWRITEBYTECODE
RECORDS := 200000

ROUNDS := 10
SECONDS := 60
TIMES := 100
SEED := 1
MINUTES := 1
COUNT := 1000
SPARK := 4.0

INTERPRETED_TESTS := tests/core tests/job tests/fuzz/test_snapshot.py
WORKERS := 2
QUICK := quick or not slow
OWN_TARGETS := cluster or wheel or commands

.PHONY: help venv compiled light wheel demo test test-all slow interpreted commands search campaign mutants fuzz kills soak damage tally \
    exchanges same lint docs bench rows flink spark older-spark interop clean

help:
	@echo "make venv   flinknet in $(VENV): . $(BIN)/activate"
	@echo "make compiled  the compiled core again, if its sources have changed (without it: slower, the same)"
	@echo "make light  dist/flinknet_light-*.whl: flinknet without Spark, Java, numba and pandas, for hosts that measure and record"
	@echo "make wheel  builds the wheels, installs them into new environments and tries them; minutes"
	@echo "make demo   a sweep over buffer timeouts, its replay in Spark, the trade-off table"
	@echo "make test   lint, types and the tests that find most: 5 minutes on two processors, installation included"
	@echo "make test-all  the same, then the tests that are marked slow, and the core without machine code"
	@echo "make commands  every command of README, docs/ and the helps, with its processes and Spark; minutes"
	@echo "make search  property tests with new examples, ROUNDS=$(ROUNDS) times or until one fails"
	@echo "make same   answers about committed recordings, and traces of simulated runs, against stored ones; ACCEPT=1 stores new ones"
	@echo "make exchanges  the compiled model against the simulator, on COUNT=$(COUNT) random exchanges and a fifth as many jobs, SEED=$(SEED)"
	@echo "make fuzz   everything that reads bytes from elsewhere, SECONDS=$(SECONDS) each, guided by coverage (Atheris)"
	@echo "make kills  each kind of process killed at random instants, TIMES=$(TIMES), SEED=$(SEED)"
	@echo "make soak   a cluster that serves jobs for MINUTES=60, and what its processes hold meanwhile"
	@echo "make damage  run directories damaged, TIMES=$(TIMES), SEED=$(SEED)"
	@echo "make campaign  disturbed runs with new seeds for MINUTES=$(MINUTES); prints what repeats a failing one"
	@echo "make tally  how often campaigns, fuzzing, kills and damage have run in this checkout"
	@echo "make mutants  bugs put into the core one by one, and who finds them (half an hour)"
	@echo "make lint   ruff and mypy"
	@echo "make docs   README and docs/ as a site in site/"
	@echo "make bench  how fast flinknet is, against plain sockets and with tracing on and off"
	@echo "make rows   the rows of the conformance table, one by one"
	@echo "make flink  the jars of Apache Flink $(FLINK_VERSIONS), for tests and benchmarks next to it"
	@echo "make spark  replay on a Spark cluster and on Spark Connect, without flinknet on their side; minutes"
	@echo "make older-spark  replay, data source, streams and conversion on Spark SPARK=$(SPARK): 430 MB in .spark/"
	@echo "make interop  exchanges with Flink's own network classes; RECORDS=10000000 for long ones"
	@echo "make clean  remove what the other targets made"

# The stamp is older than pyproject.toml only when the dependencies may have changed: no other run calls pip.
# Nothing is compiled yet: a demo at 2,000 records/s has its answer a minute earlier without.
$(STAMP): pyproject.toml hatch_build.py
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "flinknet needs Python 3.11 or newer")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["dependencies"], sep="\n")' \
	    > $(VENV)/requirements.txt
	@echo "installing packages into $(VENV)"
	@FLINKNET_COMPILED=0 $(PIP) --no-deps --editable . & flinknet=$$!; \
	    $(PIP) --no-compile --requirement $(VENV)/requirements.txt; packages=$$?; \
	    wait $$flinknet && exit $$packages
	@touch $@

# What only tests and checks need. `make --jobs 2 compiled $(TESTED)` compiles meanwhile: flinknet is installed by
# then, so pip leaves it alone here.
$(TESTED): $(STAMP)
	$(PIP) --no-compile 'flinknet[test]'
	@touch $@

# Without a C compiler or a network flinknet stays interpreted.
compiled: $(STAMP)
	@$(BIN)/python -c 'import sys, flinknet; sys.exit(flinknet.interpreted_because is not None)' || \
	    { echo "compiling the core; this takes about a minute"; $(PIP) --no-deps --editable .; } || \
	    echo "the core could not be compiled; flinknet runs interpreted"

wheel: $(TESTED)
	$(BIN)/pytest -m wheel

light: $(STAMP)
	@echo "building the wheel and compiling its core; this takes about a minute"
	@sh deploy/light.sh $(BIN)/pip
	@ls dist/flinknet_light-*.whl

venv: compiled
	@echo "flinknet is in $(VENV): . $(BIN)/activate"

demo: $(STAMP)
	rm -rf $(DEMO)
	$(BIN)/flinknet bench --rate 1k/s --arrivals poisson --producers 2 --consumers 2 --duration 2s --warmup 300ms \
	    --buffer-timeout $(TIMEOUTS) --out $(DEMO)
	@echo
	$(BIN)/flinknet trace replay $(DEMO)/run-*-buffer-timeout-0 --buffer-timeout $(TIMEOUTS) \
	    --json $(DEMO)/replay.json
	@echo
	@echo "measured:  $(DEMO)/bench.json"
	@echo "predicted: $(DEMO)/replay.json"
	@echo "traces:    $(DEMO)/run-*; look at one with: $(BIN)/flinknet trace info $(DEMO)/run-0002*"
	@$(BIN)/python -c 'import sys, flinknet; sys.exit(flinknet.interpreted_because is not None)' || \
	    echo "next:      make venv compiles the core for the highest rates, in about a minute"

# The last line of the tests says how many are left to `make test-all`, and why. Types are checked while the core is
# compiled, which keeps one processor busy; meanwhile, in a fresh clone, one process compiles to byte code what the
# three workers would compile three times.
test: $(STAMP)
	@$(MAKE) --no-print-directory compiled & compiled=$$!; \
	    $(MAKE) --no-print-directory $(TESTED) && $(BIN)/ruff check . && $(BIN)/ruff format --check .; sound=$$?; \
	    [ "$$sound" = 0 ] || { wait; exit "$$sound"; }; \
	    $(BIN)/mypy >$(VENV)/types.txt 2>&1 & types=$$!; \
	    test -d tests/__pycache__ || $(BIN)/pytest --collect-only -qq >/dev/null; \
	    wait $$compiled; \
	    $(BIN)/pytest -n 3 --quiet -m "($(QUICK)) and not ($(OWN_TARGETS))"; tests=$$?; \
	    wait $$types; typed=$$?; echo "$(BIN)/mypy"; cat $(VENV)/types.txt; exit $$((tests | typed))

test-all: test
	@$(MAKE) --no-print-directory slow interpreted

# What `make test` leaves out.
slow: compiled $(TESTED)
	$(BIN)/pytest -n 4 --quiet -m "slow and not quick and not ($(OWN_TARGETS))"

# The core and its tasks without machine code.
interpreted: $(TESTED)
	FLINKNET_COMPILED=0 $(BIN)/pytest -n $(WORKERS) --quiet $(INTERPRETED_TESTS)

commands: compiled $(TESTED)
	$(BIN)/pytest -n 0 -m commands

# `make test` takes the same examples every time. A seed repeats what a round has found.
search: $(TESTED) compiled
	@for round in $$(seq $(ROUNDS)); do \
	    seed=$$(od -A n -N 4 -t u4 /dev/urandom | tr -d ' '); \
	    search="$(BIN)/pytest -n 2 --quiet -m hypothesis --hypothesis-profile=search --hypothesis-seed=$$seed"; \
	    echo "$$search"; $$search || exit; \
	done

# An exchange is drawn again where the model leaves it to the simulator: how often, is said last.
exchanges: $(TESTED) compiled
	FLINKNET_EXCHANGES=$(COUNT) FLINKNET_SEED=$(SEED) \
	$(BIN)/pytest -n 0 --quiet -rP --timeout=0 --hypothesis-profile=search --hypothesis-seed=$(SEED) \
	    tests/predict/test_fast_path.py::test_the_kernel_gives_the_numbers_of_the_real_core \
	    tests/predict/test_job_pressure.py::test_jobs_that_wait_for_buffers_have_the_figures_of_the_real_core

# Tests, too (tests/same/test_same.py). Whoever changes an answer on purpose stores the new one in the same commit: `make same ACCEPT=1`.
same: $(TESTED) compiled
	$(BIN)/python -m tests.same $(if $(ACCEPT),--accept)

fuzz: $(TESTED)
	$(BIN)/python -c 'import atheris' || $(PIP) 'atheris>=3'
	$(BIN)/python -m tests.fuzz --seconds $(SECONDS)

kills: $(TESTED) compiled
	$(BIN)/python -m tests.kills --times $(TIMES) --seed $(SEED)
	$(BIN)/python -m tests.kills.surroundings

soak: MINUTES := 60
soak: $(TESTED) compiled
	$(BIN)/python -m tests.kills.soak --minutes $(MINUTES)

damage: $(TESTED)
	$(BIN)/python -m tests.trace.damage --times $(TIMES) --seed $(SEED)

tally: $(STAMP)
	$(BIN)/python -m tests.tally

# On all processors. A failing run is made smaller and kept in .campaign/.
campaign: $(TESTED) compiled
	$(BIN)/python -m tests.campaign --minutes $(MINUTES)

mutants: $(TESTED)
	$(BIN)/python -m tests.mutants

lint: $(TESTED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(STAMP)
	$(PIP) --no-compile 'flinknet[docs]'
	$(BIN)/mkdocs build --quiet
	@echo "site/index.html"

bench: compiled
	$(BIN)/python bench/network_throughput.py
	$(BIN)/python bench/trace_overhead.py

rows: $(TESTED)
	PYTHONPATH=. $(BIN)/python tests/rows.py -n 2

# 330 MB a release, kept by `make clean`, as .spark/ is; remove .flink/ by hand.
flink: $(STAMP)
	@for version in $(FLINK_VERSIONS); do $(BIN)/python bench/flink/distribution.py $$version || exit; done

spark: $(TESTED) compiled
	$(BIN)/pytest -m cluster

.spark/%: | $(STAMP)
	sh tests/spark_release.sh $* $@ $(BIN)/pip

# What PySpark 4.0 leaves open is not our warning. Spark 3.5 has no data sources in Python.
older-spark: $(TESTED) compiled .spark/$(SPARK)
	PYTHONPATH=$(CURDIR)/.spark/$(SPARK) $(BIN)/python -c 'import pyspark; print("Spark", pyspark.__version__)'
	PYTHONPATH=$(CURDIR)/.spark/$(SPARK) $(BIN)/pytest -n 0 --quiet -m releases \
	    tests/same $(if $(filter 3.%,$(SPARK)),,tests/replay) \
	    -W ignore::ResourceWarning -W ignore::pytest.PytestUnraisableExceptionWarning

interop: $(TESTED) flink
	FLINKNET_INTEROP_RECORDS=$(RECORDS) $(BIN)/pytest tests/interop

clean:
	rm -rf $(VENV) $(DEMO) site flinknet/_compiled .pytest_cache .mypy_cache .ruff_cache .hypothesis
