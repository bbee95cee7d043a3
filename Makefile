# What a user and the CI run. Every target installs what it needs first; that is quick when everything is there.

BIN = .venv/bin
# Five processes on two processors: tests wait for servers and processes half of the time.
PYTEST_FLAGS ?= -n 5 --dist worksteal
CHAOS_PYTEST_FLAGS ?= $(PYTEST_FLAGS)
# The tests start hundreds of processes; each one would compile all of dm again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help install demo lint types style test tests tidb test-tidb test-mariadb test-mysql56 chaos bench bench-quick bench-large profile screenshots packages lock clean

help:
	@echo "make install   packages, a virtual environment, both servers"
	@echo "make demo      the whole path on private servers (DEMO_FLAGS=--keep leaves it running, --cut-over moves and returns)"
	@echo "make test      linters, types, layers, all tests but the long ones"
	@echo "make tidb      TiDB's server, built once per machine in some minutes; needs Go (make test-tidb: the tests on it)"
	@echo "make test-mariadb   the end-to-end cases on a MariaDB 11.8, unpacked from Debian unstable (MARIADB=10.5: Debian 11,"
	@echo "               MARIADB=11.4.5, 10.2.11 or 10.1.23: Maven Central)"
	@echo "make test-mysql56   the end-to-end cases from a MySQL 5.6 of npm, for 64-bit Intel and AMD processors"
	@echo "make chaos     the long tests and crash loops, the parts that have not passed on this code (PART=n runs one,"
	@echo "               PART=state tells how they stand; CHAOS_FLAGS=--minutes=60 is for the crash loops)"
	@echo "make bench     dm beside its peers; writes docs/performance.md (make bench-quick: two minutes, writes nothing)"
	@echo "make bench-large   catching up with more rows, a shard that waits for ten minutes, a comparison of 10,000,000 rows,"
	@echo "               1,000 and 10,000 tables, and a cut-over of 2,000,000 rows; into the same page"
	@echo "make profile   where a row's microseconds go, by module and thread (PROFILE_FLAGS=--workload=A)"
	@echo "make packages  wheels, the source distribution and the list of packages of a host, from the last commit, to dist/"
	@echo "make screenshots   the pictures of the page in the documents, in Debian's Chromium"
	@echo "make lock      write requirements.lock anew after a change of pyproject.toml"
	@echo "make clean     delete what the above made, servers and environment included"

install:
	@scripts/install.sh

demo: install
	$(BIN)/dmctl demo $(DEMO_FLAGS)

# Types take as long as all else; each prints what it says when it has ended.
lint: install
	@+$(MAKE) --no-print-directory --jobs=2 --output-sync=target types style

types:
	$(BIN)/mypy

# The tests are read once: pytest keeps what it makes of them, and its processes find it.
style:
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	@said=$$($(BIN)/pytest --collect-only -qqq 2>&1) || { echo "$$said"; exit 1; }

# Types are checked beside the tests: alone they would leave the second processor idle for a minute. After a failure they
# are told once more, since what they had to say stands above all tests.
# Without Chromium, which takes root to install, the tests of the page in a browser are skipped.
test: install
	@+$(MAKE) --no-print-directory style
	-@scripts/install.sh /usr/bin/chromium:chromium
	@+$(MAKE) --no-print-directory --jobs=2 types tests || { $(BIN)/mypy; exit 1; }

tests:
	$(BIN)/pytest -m "not chaos" $(PYTEST_FLAGS)

# With TiDB in place, make test and make chaos run its tests, too; without it they are skipped.
tidb:
	scripts/build_tidb.sh

test-tidb: install tidb
	$(BIN)/pytest -m "tidb and (not chaos or cases)" $(PYTEST_FLAGS)

# The end-to-end cases and a failover on another MariaDB than the system's, which is unpacked below the cache directory.
MARIADB ?= 11.8
MARIADB_TREE_11.8 = mariadb
MARIADB_TREE_11.4.5 = mariadb-11.4.5
MARIADB_TREE_10.2.11 = mariadb-10.2.11
MARIADB_TREE_10.1.23 = mariadb-10.1.23
MARIADB_TREE_10.5 = 10.5/mariadb
OLDER_TESTS = tests/cases tests/live/upstream/test_other_server.py tests/live/syncer/follow/test_older_source.py \
	tests/spark/test_older_source.py
OLDER_NAMES = (test_cases or switched_under_load or test_older_source)
test-mariadb: install
	scripts/fetch_mariadb.sh $(MARIADB)
	DM_MARIADB=$(or $(DM_CACHE),$(CURDIR)/.cache)/$(MARIADB_TREE_$(MARIADB)) \
		$(BIN)/pytest $(OLDER_TESTS) -k "mariadb and $(OLDER_NAMES)" $(PYTEST_FLAGS)

# The same with a MySQL 5.6 of npm as the source, the system's MySQL as the target.
test-mysql56: install
	scripts/fetch_mysql56.sh
	DM_MYSQL=$(or $(DM_CACHE),$(CURDIR)/.cache)/mysql-5.6.24 \
		$(BIN)/pytest $(OLDER_TESTS) -k "mysql and $(OLDER_NAMES)" $(PYTEST_FLAGS)

# Parts of at most an hour; docs/chaos-result.json keeps what passed on which commit. Without PART all run that have not
# passed on this code; PART=state only tells. What tests measured goes to docs/chaos-figures.json, also when one failed.
chaos: install
	scripts/fetch_statements.sh
	-@scripts/build_tidb.sh
	-@scripts/fetch_kafka.sh
	-@scripts/install.sh /usr/bin/mydumper:mydumper /usr/bin/chromium:chromium /usr/sbin/debootstrap:debootstrap
	-@scripts/fetch_debian.sh
	$(BIN)/python -m tests.chaos --part="$(PART)" --pytest-flags="$(CHAOS_PYTEST_FLAGS)" --loop-flags="$(CHAOS_FLAGS)"

bench: install
	-@scripts/install.sh /usr/bin/mydumper:mydumper /usr/bin/pt-table-checksum:percona-toolkit
	$(BIN)/python -m benchmarks.run --keep=bench $(BENCH_FLAGS)

bench-large: install
	-@scripts/install.sh /usr/bin/pt-table-checksum:percona-toolkit
	$(BIN)/python -m benchmarks.run --scale 1 --full-scale 10 --part catch-up --part shards --part diff --part tables \
		--part cutover --keep=bench-large $(BENCH_FLAGS)

bench-quick: install
	$(BIN)/python -m benchmarks.run --scale 0.1 --full-scale 0.03 --rounds 1 \
		--part decode --part pull --part catch-up --part full --part latency $(BENCH_FLAGS)

profile: install
	$(BIN)/python -m benchmarks.profile $(PROFILE_FLAGS)

packages:
	scripts/packages.sh

screenshots: install
	@scripts/install.sh /usr/bin/chromium:chromium
	$(BIN)/python -m scripts.page_screenshots

lock:
	scripts/lock.sh

clean:
	rm -f dm/accelerator/*.so
	rm -rf .venv .cache .demo .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
