# `make run` and `make test` are all that most people need. The work is done by scripts/; this file only names it.
.DEFAULT_GOAL := help
.PHONY: help setup build run test test-long check bench clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## install what is missing on this machine (says what, before it does)
	@scripts/setup.sh all

build: ## set up and build
	@scripts/setup.sh run
	@scripts/build.sh

run: build ## set up, build, start Glassbox with its demo agent, print a sign-in link
	@scripts/run.sh $(ARGS)

test: ## set up, build, run every test
	@scripts/setup.sh test
	@scripts/test.sh

test-long: ## every test, and those that repeat as often as they should
	@scripts/setup.sh test
	@GLASSBOX_TEST_LONG=1 scripts/test.sh

check: ## format, lints, docs, licences, dependency directions
	@scripts/setup.sh check
	@scripts/check.sh

bench: ## the benchmark, release build
	@scripts/setup.sh run
	@scripts/build.sh helper web
	@. scripts/env.sh && cargo build --release -p glassbox && cargo build --release -p glassbox-tests --features idle --bins && target/release/bench $(ARGS)

clean: ## delete everything that was built here
	rm -rf target web/dist node_modules

# env.sh is written for bash.
SHELL := /bin/bash
