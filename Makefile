# All that a clone needs: Python 3.11 or newer, make, and the network once.

PORT ?= 8501
# From the environment HOST is taken only where it is an address: shells and conda export others.
HOST := $(or $(shell printf '%s\n' '$(HOST)' | grep -xE '[0-9a-fA-F.:]+|localhost'),127.0.0.1)
ARGS ?=

VENV := .venv
PY := $(VENV)/bin/python
INSTALL := $(PY) -m pip install --disable-pip-version-check

# The project itself, as it stands here: what is edited needs no second install.
INSTALL_PROJECT := $(INSTALL) --no-index --no-deps --no-build-isolation --editable .

# A stamp carries the sum of what it stands for, so only a changed list installs anything.
LISTS := pyproject.toml requirements.txt
RUN_STAMP := $(VENV)/.run-$(shell cat $(LISTS) | cksum | tr ' ' -)
TEST_STAMP := $(VENV)/.test-$(shell cat $(LISTS) requirements-dev.txt | cksum | tr ' ' -)
DOCS_STAMP := $(VENV)/.docs-$(shell cat $(LISTS) requirements-dev.txt requirements-docs.txt | cksum | tr ' ' -)

.DEFAULT_GOAL := help
.PHONY: help run test check format bench docs wheel clean distclean
.DELETE_ON_ERROR:

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: $(RUN_STAMP) ## start the app (HOST=127.0.0.1 PORT=8501)
	@exec $(PY) -m mha_viz app --host "$(HOST)" --port "$(PORT)"

test: check ## check, then run all tests (ARGS="-k name" runs some)
	$(PY) -m pytest -n auto --maxprocesses 4 --no-loadscope-reorder $(ARGS)

check: $(TEST_STAMP) ## format, lint, types, import contracts
	$(PY) -m ruff format --check .
	$(PY) -m ruff check .
	$(PY) -m mypy mha_viz
	$(VENV)/bin/lint-imports --no-logo

format: $(TEST_STAMP) ## rewrite what format and lint can mend
	$(PY) -m ruff format .
	$(PY) -m ruff check --fix .

bench: $(TEST_STAMP) ## measure speed and memory (ARGS=... are handed on)
	$(PY) -m benchmarks $(ARGS)

docs: $(DOCS_STAMP) ## build the documentation into site/, and test its links
	$(PY) -m mkdocs build --strict
	$(PY) -m pytest -n 0 tests/test_docs.py tests/test_gallery.py tests/test_notebooks.py tests/test_site.py

wheel: $(TEST_STAMP) ## build the wheel into dist/
	$(PY) -m pip wheel --no-deps --no-build-isolation --wheel-dir dist .

clean: ## remove what building and testing left
	rm -rf build dist site .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -path ./$(VENV) -prune -o -name __pycache__ -type d -print | xargs rm -rf

distclean: clean ## remove the environment, too
	rm -rf $(VENV)

$(RUN_STAMP): | $(PY)
	$(INSTALL) -r requirements.txt
	$(INSTALL_PROJECT)
	@rm -f $(VENV)/.run-* && touch $@

$(TEST_STAMP): | $(PY)
	$(INSTALL) -r requirements-dev.txt
	$(INSTALL_PROJECT)
	@rm -f $(VENV)/.run-* $(VENV)/.test-* && touch $(RUN_STAMP) $@

$(DOCS_STAMP): $(TEST_STAMP)
	$(INSTALL) -r requirements-docs.txt
	@rm -f $(VENV)/.docs-* && touch $@

# The first Python that is new enough and can make an environment; PYTHON=... chooses another.
$(PY):
	@found=; bare=; \
	for python in $(PYTHON) python3 python3.13 python3.12 python3.11 python3.14 python; do \
	    $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || continue; \
	    if $$python -c 'import ensurepip, venv' 2>/dev/null; then found=$$python; break; fi; \
	    bare=$${bare:-$$python}; \
	done; \
	if [ -z "$$found" ] && [ -n "$$bare" ]; then \
	    echo "$$bare cannot make a virtual environment: its 'ensurepip' is missing." >&2; \
	    echo "On Debian and Ubuntu: sudo apt install python3-venv. Then run make again." >&2; \
	    exit 1; \
	elif [ -z "$$found" ]; then \
	    echo "No Python 3.11 or newer found. Install one, or name it: make run PYTHON=/path/to/python3" >&2; \
	    exit 1; \
	fi; \
	echo "Making $(VENV) with $$($$found --version)"; \
	$$found -m venv --clear $(VENV) || { rm -rf $(VENV); exit 1; }
