# All that a clone needs: Python 3.11 to 3.14, make, and the network once.

PORT ?= 8501
# From the environment HOST is taken only where it is an address: shells and conda export others.
HOST := $(or $(shell printf '%s\n' '$(HOST)' | grep -xE '[0-9a-fA-F.:]+|localhost'),127.0.0.1)
ARGS ?=
MINUTES ?= 60

VENV := .venv
LOWEST := .lowest
NEWEST := .newest
PY := $(VENV)/bin/python
# uv installs in seconds what takes pip minutes; UV= does without it.
UV := $(shell command -v uv 2>/dev/null)
INSTALL := $(if $(UV),$(UV) pip install --python $(PY),$(PY) -m pip install --disable-pip-version-check)

# A worker takes whole files, for what their tests share, and the first, which take longest, first.
# Each worker that gets a file of browser tests starts an app of its own. A worker that dies ends the
# run: xdist would hand its files to another one, and wait for ever at the end (pytest-xdist 3.8).
PYTEST := $(PY) -m pytest -n auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder \
    --max-worker-restart 0

# The project itself, as it stands here: what is edited needs no second install.
INSTALL_PROJECT := $(INSTALL) --no-index --no-deps --no-build-isolation --editable .

# PyTorch for Linux comes from PyPI with CUDA, 6 GB in all. Without an NVIDIA GPU its own index has
# the build for CPUs, under 1 GB; where that index cannot be reached, requirements.txt brings what
# the plain one has. TORCH_INDEX= takes PyPI's; TORCH_INDEX=https://... another index's.
TORCH_INDEX ?= $(shell [ "$$(uname -s)" != Linux ] || [ -e /proc/driver/nvidia/version ] || \
    nvidia-smi -L 2>/dev/null | grep -q GPU || echo https://download.pytorch.org/whl/cpu)
INSTALL_TORCH = @index='$(TORCH_INDEX)'; [ -z "$$index" ] || { \
    echo "PyTorch from $$index (TORCH_INDEX= takes the build with CUDA, 6 GB)"; \
    PIP_RETRIES=1 PIP_DEFAULT_TIMEOUT=15 UV_HTTP_RETRIES=1 $(INSTALL) --quiet --no-deps \
        --index-url "$$index" "$$(grep '^torch==' requirements.txt)"; \
    } || echo "Not there: going on with the plain index."

# A stamp carries the sum of what it stands for, so only a changed list installs anything.
LISTS := pyproject.toml requirements.txt
RUN_STAMP := $(VENV)/.run-$(shell cat $(LISTS) | cksum | tr ' ' -)
TEST_STAMP := $(VENV)/.test-$(shell cat $(LISTS) requirements-dev.txt | cksum | tr ' ' -)
DOCS_STAMP := $(VENV)/.docs-$(shell cat $(LISTS) requirements-dev.txt requirements-docs.txt | cksum | tr ' ' -)

# Types, style and tests of the JavaScript, and what the docs' live page runs, come from npm (node
# 18.18 or newer); NPM= does without.
NPM := $(shell command -v npm 2>/dev/null)
NODE_STAMP := $(if $(NPM),node_modules/.installed-$(shell cat package.json package-lock.json | cksum | tr ' ' -))

.DEFAULT_GOAL := help
.PHONY: help run class test test-all test-extended test-numeric families metrics test-fast journeys check check-javascript javascript format bench soak siege docs notebooks pictures lowest newest newest-tests wheel wheel-try dist clean distclean fuzz mutations mutations-sample
.DELETE_ON_ERROR:

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: $(RUN_STAMP) ## start the app (HOST=127.0.0.1 PORT=8501; PUBLIC=1 opens it to strangers)
	@exec $(PY) -m mha_viz app --host "$(HOST)" --port "$(PORT)" $(if $(filter 1,$(PUBLIC)),--public)

class: $(RUN_STAMP) ## start the app for a class in this network, and print address and code (PORT=8501)
	@exec $(PY) -m mha_viz app --class --port "$(PORT)"

# The checks run beside the tests, which wait at times; what they print stands together.
AGAIN = $(MAKE) --no-print-directory
test: $(TEST_STAMP) $(NODE_STAMP) ## check, and the tests of every change (ARGS="-k name" runs some)
	@{ said=$$($(AGAIN) check 2>&1) && failed=0 || failed=1; \
	    printf '%s\n' "$$said"; exit $$failed; } & check=$$!; \
	status=0; $(PYTEST) -m "not extended" $(ARGS) || status=$$?; \
	wait $$check || { echo "make check failed: what it said stands above." >&2; exit 1; }; \
	exit $$status

# An hour and more. Each part runs even where one before it has failed; the last line names those.
ALL := test test-extended test-numeric families fuzz pictures wheel-try docs
test-all: ## `make test`, and all that it leaves out (CONTRIBUTING.md says when)
	@failed=; for part in $(ALL); do echo "== make $$part"; $(AGAIN) $$part || failed="$$failed $$part"; \
	    done; [ -z "$$failed" ] || { echo "These failed:$$failed" >&2; exit 1; }

test-extended: $(TEST_STAMP) $(NODE_STAMP) ## the tests that `make test` leaves out
	$(PYTEST) -m extended $(ARGS)

# As on a processor without AVX-512: torch's plain kernels, those of oneDNN and MKL for AVX2.
NUMERIC := $(addprefix tests/,core engine prediction interventions reports corpus circuits labs)
test-numeric: $(TEST_STAMP) ## the numeric tests again, as on other processors
	ATEN_CPU_CAPABILITY=default ONEDNN_MAX_CPU_ISA=AVX2 MKL_ENABLE_INSTRUCTIONS=AVX2 \
	    $(PYTEST) -m "not extended" $(NUMERIC) $(ARGS)

families: $(TEST_STAMP) ## every text family of transformers against its own weights; writes docs/families.md
	$(PY) -m tests.families $(ARGS)

metrics: $(TEST_STAMP) ## write what is made of all metrics: docs/metrics.md, stored runs and studies of shipped models
	$(PY) -m docs.make_metrics
	$(PY) -m models.store_first_run
	$(PY) -m models.store_sample_studies

ROUNDS ?= 100
ROUND_LOG := build/journeys.log
journeys: $(TEST_STAMP) $(NODE_STAMP) ## the browser journeys again and again (ROUNDS=100); rounds add up in build/
	@mkdir -p build; for round in $$(seq $(ROUNDS)); do \
	    said=$$($(PY) -m pytest -q -n 2 --dist loadfile -m journey tests/browser $(ARGS) 2>&1); code=$$?; \
	    { printf '%s: exit code %s, ' "$$(git rev-parse --short HEAD)" "$$code"; \
	        printf '%s\n' "$$said" | grep -E '[0-9] (passed|failed).* in ' | tail -n 1; printf '%s\n' "$$said" | grep -E '^(RUN AGAIN|FAILED|ERROR) '; } \
	        >> $(ROUND_LOG); [ $$code -eq 0 ] || { printf '%s\n' "$$said"; exit $$code; }; done
	@grep -c ' passed' $(ROUND_LOG); grep -c '^RUN AGAIN' $(ROUND_LOG) || true

test-fast: $(TEST_STAMP) $(NODE_STAMP) ## tests without browsers, training and builds, for daily work
	$(PYTEST) -m "not browser and not slow and not extended" $(ARGS)

SEED ?= $(shell od -An -N4 -tu4 /dev/urandom | tr -d ' ')
fuzz: SEED := $(SEED)
fuzz: $(TEST_STAMP) ## strangers' texts, addresses and files at length (SEED=1 tries the same again)
	@echo 'The same again: make fuzz SEED=$(SEED) ARGS="$(ARGS)"'
	FUZZ=long $(PYTEST) -o timeout=0 --hypothesis-seed=$(SEED) tests/strangers $(ARGS)

mutations: $(TEST_STAMP) $(NODE_STAMP) ## put listed faults into a copy of the code: tests must notice (ARGS="-k word")
	$(PY) -m tests.mutations $(ARGS)

mutations-sample: $(TEST_STAMP) $(NODE_STAMP) ## the same with random faults: rates and survivors (takes hours; goes on)
	$(PY) -m tests.mutations --sample --results build/mutations.jsonl $(ARGS)

check: $(TEST_STAMP) check-javascript ## format, lint, types, import contracts; those of the JavaScript where npm is
	$(PY) -m ruff format --check .
	$(PY) -m ruff check .
	$(PY) -m mypy mha_viz
	$(VENV)/bin/lint-imports --no-logo

javascript: $(TEST_STAMP) check-javascript ## types, style and tests of the JavaScript (needs npm and node)
	$(PY) -m pytest -n 0 tests/web/test_javascript.py $(ARGS)

check-javascript: $(NODE_STAMP)
ifeq ($(NPM),)
	@echo "Skipped, for npm is not there: types and style of the JavaScript (tsc, eslint)"
else
	node_modules/.bin/tsc --project jsconfig.json
	node_modules/.bin/eslint .
endif

format: $(TEST_STAMP) ## rewrite what format and lint can mend
	$(PY) -m ruff format .
	$(PY) -m ruff check --fix .

bench: $(TEST_STAMP) ## measure speed and memory (ARGS=... are handed on)
	$(PY) -m benchmarks $(ARGS)

soak: $(TEST_STAMP) ## an hour of ten visitors who come and go (MINUTES=60): does the server grow?
	MINUTES=$(MINUTES) $(PY) -m benchmarks soak

siege: $(TEST_STAMP) ## attacks on a public server beside honest visitors (MINUTES=10)
	MINUTES=$(or $(filter-out 60,$(MINUTES)),10) $(PY) -m benchmarks siege

lowest: $(NODE_STAMP) ## run the tests with the oldest versions that pyproject.toml allows (needs uv)
	@[ -n "$(UV)" ] || { echo "make lowest needs uv: https://docs.astral.sh/uv/" >&2; exit 1; }
	$(UV) venv --quiet --clear --python 3.11 $(LOWEST)
	$(UV) pip compile --quiet --python-version 3.11 --resolution lowest-direct --extra app \
	    --output-file $(LOWEST)/versions.txt pyproject.toml
	$(UV) pip install --python $(LOWEST)/bin/python --constraint $(LOWEST)/versions.txt \
	    --editable ".[app,dev]"
	$(LOWEST)/bin/python -m pytest -n auto --maxprocesses 4 --no-loadscope-reorder $(ARGS)

newest: ## run the tests with the newest versions that pyproject.toml allows
	rm -rf $(NEWEST)
	@$(AGAIN) VENV=$(NEWEST) newest-tests

newest-tests: $(NODE_STAMP) | $(PY)
	[ -z "$(TORCH_INDEX)" ] || $(INSTALL) --index-url "$(TORCH_INDEX)" torch
	$(INSTALL) hatchling --editable ".[app,cluster,datasets,dev,docs,maps,notebook]"
	$(if $(UV),$(UV) pip freeze --python $(PY),$(PY) -m pip freeze)
	$(PYTEST) -m "not extended" $(ARGS)
	NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict

# The code of the docs runs as users have it, without checks of shapes: those keep classes of DuckDB
# alive to the end of the process, where nanobind reports each as leaked.
AS_USERS := -o addopts="--import-mode=importlib --strict-markers --strict-config"

# What the warning is about, and what is planned, stands in docs/architecture.md, "The site".
# Without npm the site has no live page (docs/live_files.py).
docs: $(DOCS_STAMP) $(NODE_STAMP) ## build the documentation into site/, test its links and its code
	NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict
	BUILT_SITE=site $(PY) -m pytest $(AS_USERS) -n 0 tests/test_docs.py tests/test_site.py \
	    tests/browser/test_live_page.py

notebooks: $(TEST_STAMP) ## run the notebooks of the documentation and store their results anew
	$(PY) -m docs.store_notebooks $(ARGS)

pictures: $(TEST_STAMP) ## do the pictures of the documentation still show the app?
	$(PY) -m docs.make_pictures --check

wheel: dist

# The wheel comes from the sdist, so that an sdist without a file of the wheel cannot be built.
dist: $(TEST_STAMP) ## build what a release publishes, the sdist and the wheel from it, into dist/
	rm -rf dist
	$(PY) -m hatchling build --target sdist
	$(PY) -m pip wheel --no-deps --no-build-isolation --wheel-dir dist dist/*.tar.gz

# uv comes from PyPI where it is missing. What pip can fetch of the small PyTorch lies where uv looks.
UVX := $(or $(shell command -v uvx 2>/dev/null),build/uv/bin/uvx)
TORCH := build/torch
wheel-try: wheel ## have uvx install the wheel, alone and with the app, and run the command
	[ -x "$(UVX)" ] || $(PY) -m pip install --quiet --target build/uv uv
	@mkdir -p $(TORCH); for index in $(TORCH_INDEX) ""; do \
	    $(PY) -m pip download --quiet --retries 1 --timeout 15 --no-deps --dest $(TORCH) \
	    $${index:+--index-url $$index} "$$(grep '^torch==' requirements.txt)" && break; done
	WHEEL="$$(echo "$(CURDIR)"/dist/*.whl)" UV_FIND_LINKS="$(CURDIR)/$(TORCH)" \
	    PATH="$(dir $(abspath $(UVX))):$$PATH" \
	    $(PY) -m pytest -n 0 tests/hosting tests/test_package.py -k "builds or hosting"

clean: ## remove what building and testing left
	rm -rf build dist site .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . \( -path ./$(VENV) -o -path ./$(LOWEST) -o -path ./$(NEWEST) -o -path ./node_modules \) -prune -o -name __pycache__ -type d -print | xargs rm -rf

distclean: clean ## remove the environment, too
	rm -rf $(VENV) $(LOWEST) $(NEWEST) node_modules

$(RUN_STAMP): | $(PY)
	$(INSTALL_TORCH)
	$(INSTALL) -r requirements.txt
	$(INSTALL_PROJECT)
	@rm -f $(VENV)/.run-* && touch $@

$(TEST_STAMP): | $(PY)
	$(INSTALL_TORCH)
	$(INSTALL) -r requirements-dev.txt
	$(INSTALL_PROJECT)
	@rm -f $(VENV)/.run-* $(VENV)/.test-* && touch $(RUN_STAMP) $@

$(DOCS_STAMP): $(TEST_STAMP)
	$(INSTALL) -r requirements-docs.txt
	@rm -f $(VENV)/.docs-* && touch $@

# `npm ci` empties node_modules first, and with it goes an older stamp.
ifneq ($(NPM),)
$(NODE_STAMP):
	$(NPM) ci
	@touch $@
endif

# The first Python that is neither too old nor too new and can make an environment; PYTHON=... chooses another.
$(PY):
	@found=; bare=; \
	for python in $(PYTHON) python3 python3.13 python3.12 python3.11 python3.14 python; do \
	    $$python -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 15))' 2>/dev/null || continue; \
	    if $$python -c 'import ensurepip, venv' 2>/dev/null; then found=$$python; break; fi; \
	    bare=$${bare:-$$python}; \
	done; \
	if [ -z "$$found" ] && [ -n "$$bare" ]; then \
	    echo "$$bare cannot make a virtual environment: its 'ensurepip' is missing." >&2; \
	    echo "On Debian and Ubuntu: sudo apt install python3-venv. Then run make again." >&2; \
	    exit 1; \
	elif [ -z "$$found" ]; then \
	    echo "No Python 3.11 to 3.14 found. Install one, or name it: make run PYTHON=/path/to/python3" >&2; \
	    exit 1; \
	fi; \
	echo "Making $(VENV) with $$($$found --version)"; \
	$$found -m venv --clear $(VENV) || { rm -rf $(VENV); exit 1; }
