# One way to do each thing; every target works from a fresh clone.
PYTHON ?= python3
BIN := .venv/bin
unexport PYTHONDONTWRITEBYTECODE # tests start hundreds of processes, each of which would compile its imports anew
.DEFAULT_GOAL := help
.PHONY: help setup lock lock-clients demo check check-deep fmt lint types imports soak load affinity chaos herd bench test own-tests properties test-rooms test-conservation test-processes test-clients test-models test-tinker test-vllm test-kill test-truth settings test-examples test-installed test-deploy test-image image serve clean

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
	tests/tokenizers/environment.sh qwen3
	$(BIN)/pytest --numprocesses 2 --dist worksteal -m 'not process' --ignore=tests/core --ignore=tests/wire

test-processes: setup ## the README's commands, the demo, the command line: each in processes of its own
	tests/tokenizers/environment.sh qwen3
	$(BIN)/pytest --numprocesses 2 --dist worksteal -m process

check-deep: setup ## the property tests of core/, of wire/ and of what a client is told, at 5,000 examples each (the ledger's machine: 2,000)
	$(BIN)/pytest --numprocesses 2 --dist worksteal -m hypothesis --hypothesis-profile=deep tests/core tests/wire tests/render/test_reading_any.py

soak: setup ## 100,000 random turns through the ledger, each compared with a naive record
	$(BIN)/python -m bench.soak --turns 100000

load: setup ## 500 streams at once for a minute, a fifth hung up on: nothing is left over, nothing recorded is untrue
	$(BIN)/python -m bench.load

test-conservation: setup ## 500 sessions of every manner before a recording proxy: each token that left the engine is accounted for
	$(BIN)/python -m tests.conservation.trial --sessions 500

affinity: setup ## 200 sessions before four ranks: each stays on its own, moves once when that is drained, waits where caches are full
	$(BIN)/python -m tests.affinity.trial

chaos: setup ## 200 kills, stalls, failures and aborts of three engines: 64 agents notice none of them
	$(BIN)/python -m tests.chaos.trial

herd: setup ## 2,000 long prompts held and let go, dead trainers, a thousand engines added and removed under load
	$(BIN)/python -m tests.herd.trial

test-clients: setup ## agents of real packages through the gateway (makes their environment on first use)
	tests/clients/environment.sh
	$(BIN)/pytest tests/clients

test-models: setup ## each renderer on real tokenizers: 500 conversations, parity with templates, shares of bridges (fetches them on first use)
	tests/tokenizers/environment.sh qwen3 deepseek_v3 deepseek_v4 gemma3
	$(BIN)/pytest --numprocesses 2 --dist loadscope tests/models

test-tinker: ## tinker-cookbook's renderers: what they write, read and bridge (makes their environment on first use)
	"$$(tests/tinker/environment.sh)/bin/python" -m pytest --numprocesses 2 --dist loadscope tests/tinker

bench: setup ## figures: what matching, bridging, reading, streaming and metrics cost, what clients that fork hold, how long rendering holds the loop
	tests/tokenizers/environment.sh qwen3
	$(BIN)/python -m bench.matching
	$(BIN)/python -m bench.bridging
	$(BIN)/python -m bench.loop_lag
	$(BIN)/python -m bench.forks
	$(BIN)/python -m bench.parsing
	$(BIN)/python -m bench.streaming
	$(BIN)/python -m bench.metrics_cost

test-vllm: setup ## a real vLLM on this CPU, end to end (makes its environment on first use)
	tests/vllm/environment.sh vllm
	$(BIN)/pytest --ignore=tests/vllm/kill tests/vllm

test-kill: setup ## two real vLLMs, one of which is killed amid an answer
	tests/vllm/environment.sh vllm
	$(BIN)/pytest tests/vllm/kill

test-truth: setup ## of test-vllm, what holds rows against the model itself: logprobs beside Hugging Face's
	tests/vllm/environment.sh vllm
	$(BIN)/pytest tests/vllm/truth

test-installed: setup ## the wheel in an environment of its own: plugin, clients, launch(), serve_in_thread() (makes it on first use)
	tests/installed/environment.sh
	$(BIN)/pytest tests/installed

settings: setup ## write the README's table of settings as the code has them
	PYTHONPATH=. $(BIN)/python tools/settings_table.py

test-examples: setup ## the examples, each before a simulated engine (makes the environment of the agent packages on first use)
	tests/clients/environment.sh
	$(BIN)/pytest tests/examples tests/clients/test_examples.py

test-deploy: setup ## what deploy/ holds, on the programs that read it: balancers, Prometheus, Compose, kubectl, systemd (installs them on first use)
	tests/deploy/environment.sh
	$(BIN)/pytest --numprocesses 3 --dist loadfile tests/deploy --ignore=tests/deploy/image

test-image: setup ## the Dockerfile built step by step and the image run, without a container engine (as root, on Debian)
	$(BIN)/pytest tests/deploy/image

image: ## the image rollout-gateway:latest, by docker or podman
	DOCKER_BUILDKIT=1 $(or $(shell command -v docker || command -v podman),$(error make image needs docker or podman)) build --tag rollout-gateway:latest \
		--build-arg VERSION="$$(sed -n 's/^__version__ = "\(.*\)"/\1/p' gateway/__init__.py)" --build-arg REVISION="$$(git rev-parse HEAD)" .

serve: setup ## run the gateway; settings come from GATEWAY_… variables
	$(BIN)/gateway serve

clean: ## remove what the targets made in this tree
	rm -rf .venv .coverage .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist
