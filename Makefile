PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# Cached bytecode is a third of the time that the tests' imports take.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run test e2e browser check format bench clean

# Install again only when a list of requirements has changed.
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
	$(BIN)/mypy

test: check
	$(BIN)/pytest --numprocesses auto --ignore tests/browser

# The real Claude Code, from npm, through the gateway. Says so and succeeds where it cannot be had.
e2e: $(VENV)/testing
	$(BIN)/python -m tests.e2e --numprocesses auto

# The pages, in the system's Chromium; root gets it from apt where it is missing.
browser: $(VENV)/testing
	command -v chromium || command -v chromium-browser || command -v google-chrome || \
		test "$$(id -u)" != 0 || \
		{ apt-get update -qq && apt-get install -qq --no-install-recommends -y chromium; }
	BROWSER_REQUIRED=1 $(BIN)/pytest tests/browser

format: $(VENV)/testing
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/testing
	$(BIN)/python -m bench.translate
	$(BIN)/python -m bench.gateway

clean:
	rm -rf $(VENV) .e2e .mypy_cache .pytest_cache .ruff_cache .hypothesis bench/build
