# One way to do each thing; every target works from a fresh clone.
PYTHON ?= python3
BIN := .venv/bin
.DEFAULT_GOAL := help
.PHONY: help setup lock lock-clients demo check check-deep fmt lint types imports soak load bench test own-tests properties test-rooms test-conservation test-processes test-clients test-vllm test-truth serve clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## /\1\t/' | expand -t 14

setup: .venv/.done ## make .venv with the package, its extras prime, demo and dev
.venv/.done: pyproject.toml requirements-dev.lock
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --constraint requirements-dev.lock --editable '.[prime,demo,dev]'
	touch $@

lock: ## write requirements-dev.lock anew: the newest of everything, as a fresh environment gets it
	rm -rf .venv-lock && $(PYTHON) -m venv .venv-lock
	.venv-lock/bin/pip install --quiet '.[prime,demo,dev]'
	.venv-lock/bin/pip freeze --exclude rollout-gateway > requirements-dev.lock
	rm -rf .venv-lock

lock-clients: ## write tests/clients/requirements.txt anew: the newest of the agent packages under test
	tests/clients/environment.sh lock

demo: setup ## three agents, a gateway and a simulated engine: what became of their tokens
	$(BIN)/gateway demo

check: setup ## the one gate: format, lint, types, import contract, tests; side by side
	$(MAKE) --no-print-directory --jobs=2 --output-sync=target lint imports types test-rooms own-tests properties

fmt: setup ## format, and fix what can be fixed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lint: setup
	$(BIN)/ruff format --check --quiet .
	$(BIN)/ruff check --quiet .

types: setup
	$(BIN)/mypy

imports: setup
	$(BIN)/lint-imports --no-cache

test: own-tests properties test-rooms test-processes ## the tests, those beside the gate too; each file of core/ and wire/ wholly covered by its own

own-tests: setup
	$(BIN)/python -m tests.own_tests

properties: setup
	$(BIN)/pytest -m hypothesis tests/core tests/wire

test-rooms: setup
	tests/vllm/environment.sh tokenizer
	$(BIN)/pytest --numprocesses 3 --dist worksteal -m 'not process' --ignore=tests/core --ignore=tests/wire

test-processes: setup ## the README's commands, the demo, the command line: each in processes of its own
	tests/vllm/environment.sh tokenizer
	$(BIN)/pytest --numprocesses 2 --dist worksteal -m process

check-deep: setup ## the property tests of core/, of wire/ and of what a client is told, at 5,000 examples each
	$(BIN)/pytest --numprocesses 2 --dist worksteal -m hypothesis --hypothesis-profile=deep tests/core tests/wire tests/render/test_reading_any.py

soak: setup ## 100,000 random turns through the ledger, each compared with a naive record
	$(BIN)/python -m bench.soak --turns 100000

load: setup ## 500 streams at once for a minute, a fifth hung up on: nothing is left over, nothing recorded is untrue
	$(BIN)/python -m bench.load

test-conservation: setup ## 500 sessions of every manner before a recording proxy: each token that left the engine is accounted for
	$(BIN)/python -m tests.conservation.trial --sessions 500

test-clients: setup ## agents of real packages through the gateway (makes their environment on first use)
	tests/clients/environment.sh
	$(BIN)/pytest tests/clients

bench: setup ## figures: what matching costs beside reading a body, what clients that fork hold, what reading and streaming answers cost
	$(BIN)/python -m bench.matching
	$(BIN)/python -m bench.forks
	$(BIN)/python -m bench.parsing
	$(BIN)/python -m bench.streaming

test-vllm: setup ## a real vLLM on this CPU, end to end (makes its environment on first use)
	tests/vllm/environment.sh vllm
	$(BIN)/pytest tests/vllm

test-truth: setup ## of test-vllm, what holds rows against the model itself: logprobs beside Hugging Face's
	tests/vllm/environment.sh vllm
	$(BIN)/pytest tests/vllm/truth

serve: setup ## run the gateway; settings come from GATEWAY_… variables
	$(BIN)/gateway serve

clean: ## remove what the targets made in this tree
	rm -rf .venv .coverage .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist
