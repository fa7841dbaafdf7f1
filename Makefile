PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
HOST ?= $(or $(ATHENA_HOST),127.0.0.1)
PORT ?= $(or $(ATHENA_PORT),8000)

# Cached bytecode is a third of the time that the tests' imports take.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run test check format bench clean

# Install again only when a list of requirements has changed.
$(VENV)/installed: requirements.txt requirements-dev.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	touch $@

run: $(VENV)/installed
	$(BIN)/python manage.py migrate --verbosity 0
	$(BIN)/uvicorn athena_site.asgi:application --host $(HOST) --port $(PORT) --no-access-log

check: $(VENV)/installed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

test: check
	$(BIN)/pytest --numprocesses auto

format: $(VENV)/installed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/installed
	$(BIN)/python -m bench.translate
	$(BIN)/python -m bench.gateway

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis bench/build
