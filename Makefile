PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# Two workers per core, because tests that start servers mostly wait.
TESTERS := $(shell expr 2 \* $$(nproc 2>/dev/null || echo 2))

# Without cached bytecode, the tests' imports take a third longer.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run test together test-postgres redis e2e browser check format bench bench-peers soak fuzz clean

# Install only if the requirements have changed.
$(VENV)/running: requirements.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.txt
	touch $@

$(VENV)/testing: requirements.txt requirements-dev.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	touch $@ $(VENV)/running

run: $(VENV)/running
	@$(BIN)/python manage.py serve

check: $(VENV)/testing
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports --no-cache --no-logo
	$(BIN)/mypy

# Some tests kill and freeze a Redis server of their own; root installs it with apt if it is missing.
redis:
	command -v redis-server || test "$$(id -u)" != 0 || \
		{ apt-get update -qq && apt-get install -qq --no-install-recommends -y redis-server; }

# Tests that need real time run alone, after the others. No test runs a second time.
TOGETHER := --ignore tests/browser -m 'not e2e and not realtime' --numprocesses $(TESTERS)
ALONE := --ignore tests/browser -m realtime --numprocesses 0

# Lint and types are checked beside the tests.
test: $(VENV)/testing redis
	$(MAKE) --no-print-directory --jobs 2 check together
	DATABASE_URL= $(BIN)/pytest $(ALONE)

together:
	DATABASE_URL= $(BIN)/pytest $(TOGETHER)

# The tests that use the database, on PostgreSQL (`tests/conftest.py` says which these are): on the
# server of DATABASE_URL, or on one started for the run; root installs it with apt if it is missing.
test-postgres: $(VENV)/testing redis
	test -n "$$DATABASE_URL" || command -v initdb || ls /usr/lib/postgresql/*/bin/initdb || \
		test "$$(id -u)" != 0 || \
		{ apt-get update -qq && apt-get install -qq --no-install-recommends -y postgresql; }
	$(BIN)/python -m tests.support.on_postgres $(TOGETHER)

# The real Claude Code, from npm, through the gateway. Without npm it prints a message and succeeds.
e2e: $(VENV)/testing
	$(BIN)/python -m tests.e2e --numprocesses auto

# The pages in the system's Chromium; root installs it with apt if it is missing.
browser: $(VENV)/testing
	command -v chromium || command -v chromium-browser || command -v google-chrome || \
		test "$$(id -u)" != 0 || \
		{ apt-get update -qq && apt-get install -qq --no-install-recommends -y chromium; }
	BROWSER_REQUIRED=1 $(BIN)/pytest tests/browser

format: $(VENV)/testing
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# CPU, memory and latency of a request, beside a pass-through and installed peers; ten minutes at most.
bench: $(VENV)/testing
	$(BIN)/python -m bench

# Install other gateways from PyPI and npm into .peers/, for comparison.
bench-peers: $(VENV)/testing
	$(BIN)/python -m bench.peers

# Ten minutes of faults on each database; SOAK_SECONDS shortens it. Linux only: reads /proc.
soak: $(VENV)/testing
	$(BIN)/python -m tests.soak

# Each group runs for FUZZ_SECONDS. Atheris has no wheel for some platforms; its group is skipped there.
fuzz: $(VENV)/testing
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-fuzz.txt || \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check \
			$$(grep schemathesis requirements-fuzz.txt) || true
	$(BIN)/python -m tests.fuzz

clean:
	rm -rf $(VENV) .e2e .fuzz .peers .mypy_cache .pytest_cache .ruff_cache .hypothesis bench/build
