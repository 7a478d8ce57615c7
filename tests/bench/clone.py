"""Initial copies: pgbench's tables with and without primary keys, and databases of many small tables.

The measure of all is the bare pipe `psql COPY … TO STDOUT | psql COPY … FROM STDIN`, text, into tables that are already
there and have no index. Whatever else a subject does (slot, schema, keys, state) is in its time.
"""

import os
import subprocess
import time

from compare import fingerprint, require_equal
from measure import Client, cost_of
from servers import BIN, run

PLAIN, KEYED = "copy_plain", "copy_keyed"


class Copies:
    SUBJECTS = ("psql pipe", "pgbaton, no key", "pgbaton", "pg_dump, pg_restore", "subscription", "pgcopydb")

    def __init__(self, bench):
        self.bench = bench
        self.source, self.target = bench.servers.source, bench.servers.target

    def run(self):
        size = max(1, round(50 * self.bench.scale))
        expected = {}
        for database, steps in ((PLAIN, "dtg"), (KEYED, "dtgp")):
            self.source.create(database)
            run([f"{BIN}/pgbench", "-i", "-q", "-I", steps, "-s", str(size), self.source.conninfo(database)])
            self.source.sql(database, "vacuum analyze")
            expected[database] = fingerprint(self.source, database, self.source, database)
        costs = {}
        for pair in range(self.bench.pairs):
            subjects = self._subjects()
            for subject, (database, prepare, what) in list(subjects.items())[:: 1 if pair % 2 == 0 else -1]:
                costs.setdefault(subject, []).append(self._one(subject, database, prepare, what, expected[database]))
                self.bench.tell(f"copy, {subject} {costs[subject][-1].seconds:.2f} s")
        for database in (PLAIN, KEYED):
            self.source.drop(database)
        return {subject: costs[subject] for subject in self.SUBJECTS if subject in costs}

    def _subjects(self):
        found = {
            "psql pipe": (PLAIN, self._schema, self._pipe),
            "pgbaton, no key": (PLAIN, None, self._pgbaton),
            "pgbaton": (KEYED, None, self._pgbaton),
            "pg_dump, pg_restore": (KEYED, None, self._dump),
            "subscription": (KEYED, self._schema, self._subscription),
            "pgcopydb": (KEYED, None, self._pgcopydb),
        }
        if not self.bench.has_pgcopydb:
            del found["pgcopydb"]
        return found

    def _one(self, subject, database, prepare, what, expected):
        self.target.create("run")
        try:
            if prepare:
                prepare(database)
            cost = cost_of(self.bench.servers, lambda: what(database))
            require_equal(expected, fingerprint(self.source, database, self.target, "run"), f"copy, {subject}")
            return cost
        finally:
            self.bench.clean_up_after(database)

    def _schema(self, database):
        self.target.sql("run", run([f"{BIN}/pg_dump", "-s", self.source.conninfo(database)]))

    def _pipe(self, database):
        clients = []
        for table in ("accounts", "branches", "tellers", "history"):
            reader = Client(["psql", "-qX", "-d", self.source.conninfo(database), "-c", f"copy pgbench_{table} to stdout"], self.bench.log,
                            stdout=subprocess.PIPE)
            writer = Client(["psql", "-qX", "-d", self.target.conninfo("run"), "-c", f"copy pgbench_{table} from stdin"], self.bench.log,
                            stdin=reader.process.stdout)
            reader.process.stdout.close()
            clients += [writer.wait(), reader.wait()]
        return None, clients

    def _pgbaton(self, database):
        return None, [self.bench.pgbaton("clone", database, "run", *self.bench.clone_options).wait()]

    def _dump(self, database):
        directory = os.path.join(self.bench.servers.work, "dump")
        dump = Client([f"{BIN}/pg_dump", "-Fd", "-j2", "-f", directory, self.source.conninfo(database)], self.bench.log).wait()
        restore = Client([f"{BIN}/pg_restore", "-j2", "-d", self.target.conninfo("run"), directory], self.bench.log).wait()
        return None, [dump, restore]

    def _subscription(self, database):
        self.source.sql(database, "create publication bench for all tables")
        self.target.sql("run", f"create subscription bench connection '{self.source.conninfo(database)}' publication bench")
        while self.target.value("run", "select count(*) from pg_subscription_rel where srsubstate <> 'r'") != "0":
            time.sleep(0.05)
        return None, []

    def _pgcopydb(self, database):
        client = Client(["pgcopydb", "clone", "--source", self.source.conninfo(database), "--target", self.target.conninfo("run"),
                         "--table-jobs", "2", "--index-jobs", "2", "--dir", os.path.join(self.bench.servers.work, "pgcopydb")],
                        self.bench.log)
        return None, [client.wait()]


class ManyTables:
    """Clone of 3000 small tables against ten times the clone of 300: what grows faster than the number of tables shows."""

    def __init__(self, bench):
        self.bench = bench
        self.source = bench.servers.source

    def run(self):
        few = max(10, round(300 * min(1, self.bench.scale * 2)))
        costs = {f"{few} tables": [], f"{few * 10} tables": []}
        for count in (few, few * 10):
            self._make(f"many_{count}", count)
        for _ in range(self.bench.pairs):
            for count in (few, few * 10):
                costs[f"{count} tables"].append(self._one(f"many_{count}"))
                self.bench.tell(f"clone, {count} tables {costs[f'{count} tables'][-1].seconds:.2f} s")
        for count in (few, few * 10):
            self.source.drop(f"many_{count}")
        return costs

    def _make(self, database, count):
        self.source.create(database)
        # Several transactions: one that makes 3000 tables needs more locks than a server has by default.
        self.source.sql(database, f"""do $$ begin for i in 1..{count} loop
            execute format('create table t_%s (id int primary key, what text)', i);
            execute format('insert into t_%s select g, md5(g::text) from generate_series(1, 20) g', i);
            if i % 100 = 0 then commit; end if;
          end loop; end $$; vacuum analyze;""")
        self.expected = getattr(self, "expected", {})
        self.expected[database] = fingerprint(self.source, database, self.source, database)

    def _one(self, database):
        self.bench.servers.target.create("run")
        try:
            cost = cost_of(self.bench.servers, lambda: (None, [self.bench.pgbaton("clone", database, "run", *self.bench.clone_options).wait()]))
            require_equal(self.expected[database], fingerprint(self.source, database, self.bench.servers.target, "run"), database)
            return cost
        finally:
            self.bench.clean_up_after(database)
