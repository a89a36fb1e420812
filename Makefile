# Two commands from a clean checkout: `make demo` and `make test`. They need Python >= 3.11 with venv, and no Java.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DEMO := demo-run
TIMEOUTS := 0,1ms,5ms,10ms,100ms,-1
FLINK_VERSIONS := 2.3.0 1.20.5
RECORDS := 200000

.PHONY: help venv demo test lint bench rows flink interop clean

help:
	@echo "make venv   flinknet in $(VENV): . $(BIN)/activate"
	@echo "make demo   a sweep over buffer timeouts, its replay in Spark, the trade-off table"
	@echo "make test   lint, types, tests"
	@echo "make lint   ruff and mypy"
	@echo "make bench  how fast flinknet is, against plain sockets and with tracing on and off"
	@echo "make rows   the rows of the conformance table, one by one"
	@echo "make flink  the jars of Apache Flink $(FLINK_VERSIONS), for tests and benchmarks beside it"
	@echo "make interop  exchanges with Flink's own network classes; RECORDS=10000000 for long ones"
	@echo "make clean  remove what the other targets made"

# The stamp is older than pyproject.toml only when the dependencies may have changed: no other run calls pip.
$(STAMP): pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "flinknet needs Python 3.11 or newer")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --disable-pip-version-check --quiet --editable '.[test]'
	@touch $@

venv: $(STAMP)
	@echo "flinknet is in $(VENV): . $(BIN)/activate"

demo: $(STAMP)
	rm -rf $(DEMO)
	$(BIN)/flinknet bench --rate 1k/s --producers 2 --consumers 2 --duration 3s \
	    --buffer-timeout $(TIMEOUTS) --out $(DEMO)
	@echo
	$(BIN)/flinknet trace replay $(DEMO)/run-*-buffer-timeout-0 --buffer-timeout $(TIMEOUTS) \
	    --json $(DEMO)/replay.json
	@echo
	@echo "measured:  $(DEMO)/bench.json"
	@echo "predicted: $(DEMO)/replay.json"
	@echo "traces:    $(DEMO)/run-*; look at one with: $(BIN)/flinknet trace info $(DEMO)/run-0002*"

test: lint
	$(BIN)/pytest -n 2

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(STAMP)
	$(BIN)/python bench/network_throughput.py
	$(BIN)/python bench/trace_overhead.py

rows: $(STAMP)
	PYTHONPATH=. $(BIN)/python tests/rows.py -n 2

# 330 MB a release, kept by `make clean`; remove .flink/ by hand.
flink: $(STAMP)
	@for version in $(FLINK_VERSIONS); do $(BIN)/python bench/flink/distribution.py $$version || exit; done

interop: flink
	FLINKNET_INTEROP_RECORDS=$(RECORDS) $(BIN)/pytest tests/interop

clean:
	rm -rf $(VENV) $(DEMO) .pytest_cache .mypy_cache .ruff_cache .hypothesis
