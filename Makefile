PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# Two workers per core, because tests that start servers mostly wait.
TESTERS := $(shell expr 2 \* $$(nproc 2>/dev/null || echo 2))

# Without cached bytecode, the tests' imports take a third longer.
unexport PYTHONDONTWRITEBYTECODE

# Root installs a missing package with apt, after saying so.
apt = test "$$(id -u)" != 0 || ! command -v apt-get > /dev/null || { \
	echo "Some tests need $(1), which is missing. Running as root: apt-get install $(1)"; \
	apt-get update -qq && apt-get install -qq --no-install-recommends -y $(1); }

.PHONY: run test together test-postgres redis shells e2e browser check format bench bench-peers soak fuzz clean force

# Install only if the requirements have changed.
$(VENV)/running: requirements.txt
	@.ci/install "$(PYTHON)" "$(VENV)" requirements.txt
	@touch $@

$(VENV)/testing: requirements.txt requirements-dev.txt
	@.ci/install "$(PYTHON)" "$(VENV)" requirements-dev.txt
	@touch $@ $(VENV)/running

# Also install if the Python of the virtual environment is gone, as after a system upgrade.
ifneq ($(shell $(BIN)/python -c 'print("works")' 2> /dev/null),works)
$(VENV)/running $(VENV)/testing: force
endif

run: $(VENV)/running
	@$(BIN)/python manage.py serve

check: $(VENV)/testing
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports --no-cache --no-logo
	$(BIN)/mypy

# Some tests kill and freeze a Redis server of their own; root installs it with apt if it is missing.
redis:
	@command -v redis-server > /dev/null || $(call apt,redis-server)

# The curl command of an exchange is tried in every shell that people paste it into.
shells:
	@{ command -v zsh && command -v fish && command -v dash; } > /dev/null || $(call apt,zsh fish dash)

# Tests that need real time run alone, after the others. No test runs a second time.
TOGETHER := --ignore tests/browser -m 'not e2e and not realtime' --numprocesses $(TESTERS)
ALONE := --ignore tests/browser -m realtime --numprocesses 0

# Lint and types are checked beside the tests.
test: $(VENV)/testing redis shells
	$(MAKE) --no-print-directory --jobs 2 check together
	DATABASE_URL= $(BIN)/pytest $(ALONE)

together:
	DATABASE_URL= $(BIN)/pytest $(TOGETHER)

# The tests that use the database, on PostgreSQL (`tests/conftest.py` says which these are): on the
# server of DATABASE_URL, or on one started for the run; root installs it with apt if it is missing.
test-postgres: $(VENV)/testing redis
	@test -n "$$DATABASE_URL" || command -v initdb > /dev/null || \
		ls /usr/lib/postgresql/*/bin/initdb > /dev/null 2>&1 || $(call apt,postgresql)
	$(BIN)/python -m tests.support.on_postgres $(TOGETHER)

# The real Claude Code, from npm, through the gateway. Without npm it prints a message and succeeds.
e2e: $(VENV)/testing
	$(BIN)/python -m tests.e2e --numprocesses auto

# The pages in the system's Chromium; root installs it with apt if it is missing.
browser: $(VENV)/testing
	@command -v chromium > /dev/null || command -v chromium-browser > /dev/null || \
		command -v google-chrome > /dev/null || $(call apt,chromium)
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
