# Every routine job has a short name here; CI calls the same ones.
PYTHON := .venv/bin/python
.DEFAULT_GOAL := help
.PHONY: help bench-replay bench-store bench-views demo test lint check format lock serve setup-demo setup-test

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

setup-demo:
	@scripts/setup demo

setup-test:
	@scripts/setup test

demo: setup-demo ## record a real federated training, look back at it, replay it, verify its log
	@.venv/bin/retrace demo --data retrace-data

test: setup-test lint ## set up, lint, type-check and run every test
	@$(PYTHON) -m pytest -q

lint: setup-test ## formatting, lint and types
	@.venv/bin/ruff format --check -q .
	@.venv/bin/ruff check -q .
	@$(PYTHON) -m mypy

format: setup-test ## rewrite the code in the house format
	@.venv/bin/ruff format -q . && .venv/bin/ruff check -q --fix .

lock: setup-test ## compile requirements.lock anew from pyproject.toml (names no index)
	@.venv/bin/uv pip compile pyproject.toml --all-extras --generate-hashes --no-emit-index-url \
	  --no-header --no-annotate --quiet -o requirements.lock

bench-store: setup-test ## the event store beside raw SQLite, raw COPY and its own bars
	@$(PYTHON) -m benchmarks.store

bench-views: setup-test ## views: following, rebuilding and looking back, beside reading the store alone
	@$(PYTHON) -m benchmarks.views

bench-replay: setup-test ## replay engines beside plain numpy and tinygrad, and what the child process adds
	@$(PYTHON) -m benchmarks.replay

serve: setup-demo ## serve the data folder on 127.0.0.1:7400
	@.venv/bin/retrace serve --data retrace-data
