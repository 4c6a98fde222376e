# The two commands of the README, and what CI runs besides them. Everything is installed into .venv.
# Needs: Python 3.10 or newer with venv, a C++20 compiler (gcc 12, clang 15 or newer), make.
PYTHON ?= python3
VENV := .venv
PIP := $(VENV)/bin/python -m pip --disable-pip-version-check install --quiet
SOURCES := pyproject.toml CMakeLists.txt README.md \
  $(shell find cpp python/spector -type f -not -name '*.pyc')

.PHONY: demo test lint torture clean

demo: $(VENV)/cli.installed
	$(VENV)/bin/spector demo

test: $(VENV)/test.installed
	$(VENV)/bin/python -m pytest -n auto

# Crashes, faults of the disk and damage at full size; says how long it took. Root runs all of it.
torture: $(VENV)/test.installed
	$(VENV)/bin/python -m tests.torture

lint: $(VENV)/dev.installed
	$(VENV)/bin/ruff check
	$(VENV)/bin/ruff format --check
	$(VENV)/bin/mypy
	$(VENV)/bin/python tests/check_labels.py
	git ls-files '*.hpp' '*.cpp' '*.inl' | grep -v unicode_tables | \
	  xargs $(VENV)/bin/clang-format --dry-run --Werror

clean:
	rm -rf $(VENV) build dist

$(VENV)/%.installed: $(SOURCES) | $(VENV)/bin/python
	@echo "Building and installing spector[$*] into $(VENV) (about a minute the first time)"
	$(PIP) '.[$*]'
	@touch $@

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
	  { echo "spector needs Python 3.10 or newer: make PYTHON=/path/to/python3"; exit 1; }
	$(PYTHON) -m venv $(VENV)
