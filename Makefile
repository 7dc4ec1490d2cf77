# Every target makes the environment it needs; Python 3.11 or newer, make and git are enough to start.
#
#   PYTHON=python3.12              another interpreter for the environment
#   EXTRAS=report,dask,dev         other extras; remembered until the environment is removed
#   PYTEST_ARGS="-k spectrum -x"   passed on to pytest (JOBS=4: more workers)
#   ARGS="--quick"                 passed on to the demo, a benchmark or reproduce

PYTHON ?= python3
VENV ?= .venv
JOBS ?= 2
PYTEST_ARGS ?=
ARGS ?=
CONSTRAINTS ?=

DEFAULT_EXTRAS := report,dev
LOCKED_EXTRAS := report dask browser dev
REMEMBERED_EXTRAS := $(shell cat $(VENV)/.extras 2>/dev/null)
EXTRAS ?= $(if $(REMEMBERED_EXTRAS),$(REMEMBERED_EXTRAS),$(DEFAULT_EXTRAS))

BIN := $(VENV)/bin
PY := $(BIN)/python
INSTALLED := $(VENV)/.installed-$(EXTRAS)
# Workers share the cores already: more threads inside each would only get in one another's way.
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1

export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help env venv demo test test-deep test-oldest coverage mutants lint format types check docs reproduce \
        lock audit bench-cpu bench-real bench-gpu clean clean-all

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

env: $(INSTALLED) ## make .venv and install stopwise in it, editable

venv: $(BIN)/pip ## make .venv with nothing in it yet

$(BIN)/pip:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "stopwise needs Python 3.11 or newer, and $(PYTHON) is not. Name another one: make PYTHON=python3.12 ..." >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { \
	  echo "$(PYTHON) could not make an environment. On Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }

$(INSTALLED): pyproject.toml $(CONSTRAINTS) | $(BIN)/pip
	$(PY) -m pip install --quiet $(addprefix --constraint ,$(CONSTRAINTS)) --editable ".[$(EXTRAS)]"
	@echo "$(EXTRAS)" > $(VENV)/.extras
	@touch $@

$(VENV)/.also-%: pyproject.toml | $(INSTALLED)
	$(PY) -m pip install --quiet --editable ".[$*]"
	@touch $@

# With no environment yet, only what the demo itself needs; the tests' tools come with the first target that wants them.
$(VENV)/.demo: pyproject.toml | $(BIN)/pip
	$(PY) -m pip install --quiet --editable . "jinja2>=3.1"
	@touch $@

demo: $(if $(REMEMBERED_EXTRAS),$(INSTALLED),$(VENV)/.demo) ## fit an example and say why it stopped where it did
	@mkdir -p build/demo
	$(BIN)/stopwise fit --example motorcycle --out build/demo/motorcycle.stopwise --report build/demo/report.html $(ARGS)

test: $(INSTALLED) ## run the tests
	$(ONE_THREAD) $(PY) -m pytest -n $(JOBS) --dist worksteal $(PYTEST_ARGS)

test-deep: $(INSTALLED) ## run the slow tests too, with many more random examples
	$(ONE_THREAD) HYPOTHESIS_PROFILE=deep $(PY) -m pytest -n $(JOBS) --dist worksteal -m "deep or not deep" $(PYTEST_ARGS)

# On the oldest Python too: newer ones have no wheels of the oldest releases.
test-oldest: ## run the tests with the oldest dependencies that are allowed
	$(MAKE) --no-print-directory test \
	  PYTHON=python3.11 VENV=.venv-oldest EXTRAS=report,dask,dev CONSTRAINTS=constraints/oldest.txt

coverage: $(INSTALLED) ## run the tests and say which lines and branches of src/ none of them reached
	rm -f .coverage .coverage.*
	$(ONE_THREAD) $(PY) -m pytest -n $(JOBS) --dist worksteal --cov --cov-report= $(PYTEST_ARGS)
	$(BIN)/coverage report

mutants: ## change the deciding parts a little, thousands of times, and count what the tests notice (an hour or more)
	$(MAKE) --no-print-directory env VENV=.venv-mutants EXTRAS=report,mutants
	$(ONE_THREAD) .venv-mutants/bin/mutmut run --max-children $(JOBS)
	.venv-mutants/bin/mutmut results

lint: $(INSTALLED) ## look for mistakes and unformatted files
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(INSTALLED) ## format the code and mend what can be mended
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: $(INSTALLED) ## check the types of src/, strictly
	$(BIN)/mypy

check: lint types ## lint and types

docs: $(VENV)/.also-docs ## build the documentation in build/docs; a warning is an error
	$(PY) docs/house.py
	$(BIN)/sphinx-build -W --keep-going -b html docs build/docs
	$(PY) docs/links.py build/docs

reproduce: $(INSTALLED) ## run the paper's experiments
	$(BIN)/stopwise reproduce $(ARGS)

.venv-tools/.installed:
	$(MAKE) --no-print-directory venv PYTHON=python3.11 VENV=.venv-tools
	.venv-tools/bin/python -m pip install --quiet "pip-tools>=7.5" "pip-audit>=2.9"
	@touch $@

# Takes minutes where the package index gives no hashes: then every file is fetched to take its own.
lock: .venv-tools/.installed ## refresh the versions and hashes in constraints/dev.lock
	CUSTOM_COMPILE_COMMAND="make lock" .venv-tools/bin/pip-compile --quiet --upgrade --generate-hashes --strip-extras \
	  --no-emit-index-url --no-emit-trusted-host --no-emit-find-links --annotation-style=line \
	  $(addprefix --extra ,$(LOCKED_EXTRAS)) --output-file constraints/dev.lock pyproject.toml

audit: .venv-tools/.installed ## look for known vulnerabilities in constraints/dev.lock (asks a service on the network)
	.venv-tools/bin/pip-audit --strict --require-hashes --disable-pip --requirement constraints/dev.lock $(ARGS)

# Some of the libraries compared against hold scipy back, so they live in an environment of their own.
bench-cpu: ## time every solver and its peers on this machine
	$(MAKE) --no-print-directory env VENV=.venv-bench EXTRAS=bench
	.venv-bench/bin/python benchmarks/cpu.py $(ARGS)

bench-real: ## compare prediction error with peers on real data
	$(MAKE) --no-print-directory env VENV=.venv-bench EXTRAS=bench
	.venv-bench/bin/python benchmarks/real_data.py $(ARGS)

bench-gpu: ## check, then time, the GPU engine (needs an NVIDIA GPU)
	$(MAKE) --no-print-directory env VENV=.venv-gpu EXTRAS=torch,report
	.venv-gpu/bin/python benchmarks/gpu.py $(ARGS)

clean: ## remove what was built, keep the environments
	rm -rf build dist htmlcov .coverage .coverage.* .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

clean-all: clean ## remove the environments too
	rm -rf .venv .venv-bench .venv-gpu .venv-mutants .venv-oldest .venv-tools mutants
