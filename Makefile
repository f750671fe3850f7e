# All paths are relative to this folder: make itself cannot hold a path with a space in it.
# The long work (environment, llama.cpp, model) is skippy_site/provision, in Python; see `make help`.

PYTHON ?= python3
PIP_TOOLS := pip-tools==7.6.2
PIP_AUDIT := pip-audit==2.10.1
PROVISION := $(PYTHON) -m skippy_site.provision
RUN := .venv/bin/python
LOCK_ENV := .skippy/lock-env
AUDIT_ENV := .skippy/audit-env

MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help serve prepare test check format lock doctor clean backup restore audit

help: ## show this
	@echo "Targets:"
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1|\2/p' Makefile | while IFS='|' read -r name text; do printf '%-14s %s\n' "$$name" "$$text"; done
	@echo
	@echo "PYTHON=/path/to/python3.11 chooses the Python; ARGS='…' is handed on by serve and test."
	@echo "Settings (SKIPPY_PORT, SKIPPY_MODEL, …) are environment variables: README.md."

serve: ## prepare what is missing, then run the service (Ctrl-C ends it)
	@exec $(PROVISION) serve $(ARGS)

prepare: ## do everything that serve does before it starts
	@exec $(PROVISION) prepare

test: ## run all tests, on a machine where nothing was run before
	@exec $(PROVISION) test $(ARGS)

check: ## what CI runs before the tests: format, lint, types, imports, migrations, locks
	@$(PROVISION) tools
	@$(RUN) -m ruff format --check .
	@$(RUN) -m ruff check .
	@$(RUN) -m mypy
	@$(RUN) .venv/bin/lint-imports --no-cache
	@$(RUN) -m skippy_site.provision.migration_check
	@$(RUN) -m skippy_site.provision.requirement_check
	@$(RUN) -m pip check
	@$(if $(AUDIT),$(MAKE) audit,echo "Known vulnerabilities were not looked up: make check AUDIT=1, or make audit, asks an advisory service.")

audit: ## look up known vulnerabilities of everything that is pinned (needs the internet)
	@mkdir -p -m 700 .skippy
	@test -x $(AUDIT_ENV)/bin/pip-audit || { $(PYTHON) -m venv --clear $(AUDIT_ENV) && $(AUDIT_ENV)/bin/python -m pip install --quiet --disable-pip-version-check $(PIP_AUDIT); }
	@for name in build runtime dev; do \
		echo "auditing $$name.txt"; \
		$(AUDIT_ENV)/bin/pip-audit --requirement requirements/$$name.txt --disable-pip --require-hashes --strict --progress-spinner off || exit 1; \
	done

format: ## format the code and mend what the linter can
	@$(PROVISION) tools
	@$(RUN) -m ruff check --fix-only -q .
	@$(RUN) -m ruff format .

lock: ## rewrite requirements/*.txt from *.in (UPGRADE=1: take newer versions)
	@$(PYTHON) -c 'import sys; sys.exit("The locks are made with Python 3.11, the oldest supported: make lock PYTHON=python3.11" if sys.version_info[:2] != (3, 11) else 0)'
	@mkdir -p -m 700 .skippy
	@test -x $(LOCK_ENV)/bin/pip-compile || { $(PYTHON) -m venv --clear $(LOCK_ENV) && $(LOCK_ENV)/bin/python -m pip install --quiet --disable-pip-version-check $(PIP_TOOLS); }
	@cd requirements && for name in build runtime dev; do \
		echo "resolving $$name.in"; \
		CUSTOM_COMPILE_COMMAND="make lock" ../$(LOCK_ENV)/bin/python -m piptools compile --quiet --generate-hashes \
			--strip-extras --no-emit-index-url --no-emit-find-links --no-emit-trusted-host \
			$(if $(UPGRADE),--upgrade) --output-file=$$name.txt $$name.in || exit 1; \
	done
	@$(PYTHON) -c 'print("Locked. `make check` compares them with the .in files.")'

backup: ## write all that must survive into one file (FILE=… KEEP=n), while the service runs or not
	@$(RUN) manage.py backup $(if $(KEEP),--keep=$(KEEP)) $(if $(FILE),"$(FILE)")

restore: ## make an unused state folder (SKIPPY_HOME) what a backup was made of: FILE=…
	@$(RUN) manage.py restore "$(FILE)"

doctor: ## say what is wrong with this machine
	@exec $(PROVISION) doctor

clean: ## remove the environment and caches; keeps .skippy (data, models) and built wheels
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache $(LOCK_ENV) $(AUDIT_ENV)
	find . -name __pycache__ -type d -not -path './.skippy/*' -prune -exec rm -rf {} +
