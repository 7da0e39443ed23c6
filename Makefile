# The one door to this project. `make` alone tells what there is.
# On a machine with git, make and Python >= 3.11, every target works in a fresh clone.

VENV := .venv
BIN := $(VENV)/bin
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help venv demo run test test-long lint format bench bench-search lock clean

help: ## Tell what there is
	@awk 'BEGIN { FS = ":.*## " } /^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo '  ARGS="..." is passed on, for example: make demo ARGS="--commits 100000"'

venv: $(VENV)/.stamp ## Make the virtual environment with the locked dependencies
	@:

$(VENV)/.stamp: requirements.lock pyproject.toml tools/make-venv
	@tools/make-venv $(VENV)

demo: venv ## Try it: a simulated network, the indexer, its API on :8080
	@$(BIN)/concrnt-indexer demo $(ARGS)

run: venv ## Run the indexer with config.yaml, or with the defaults
	@$(BIN)/concrnt-indexer up $(ARGS)

test: venv ## Run all tests but the long ones
	@$(BIN)/python -m pytest --numprocesses=auto --dist=worksteal -m "not slow" $(ARGS)

test-long: venv ## Run the long tests
	@$(BIN)/python -m pytest -m slow --timeout=3600 $(ARGS)

lint: venv ## Check style, types and layers
	@$(BIN)/ruff check --quiet
	@$(BIN)/ruff format --check --quiet
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo

format: venv ## Format the code and mend what the linter can
	@$(BIN)/ruff check --fix --quiet --exit-zero
	@$(BIN)/ruff format --quiet

bench: venv ## Measure a backfill from start to searchable
	@$(BIN)/python -m bench.backfill $(ARGS)

bench-search: venv ## Measure searches and suggestions over 200,000 posts
	@$(BIN)/python -m bench.search $(ARGS)

lock: venv ## Resolve the dependencies again (ARGS=--upgrade for newer ones)
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
		--no-emit-index-url --no-emit-find-links --extra dev --output-file requirements.lock pyproject.toml $(ARGS)

clean: ## Remove the virtual environment and all caches; data stays
	@rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@find indexer tests bench -name __pycache__ -type d -prune -exec rm -rf {} +
