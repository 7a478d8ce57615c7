"""Drains of a prepared backlog: the product against the server's own subscription, and pg_recvlogical to /dev/null.

All read the same WAL: the slots exist before the backlog is written, and each run gets copies of them
(pg_copy_logical_replication_slot), so that a backlog can be drained any number of times. Each run's target database is a
copy, file by file, of one that was filled before the backlog was written: of `…_ours` by pgbaton clone, of `…_theirs` by
pg_dump. A drain ends when the backlog's last row can be seen on the target.
"""

import time

from compare import fingerprint, require_equal
from measure import Client, cost_of
from servers import BIN
from workloads import MARKER

SUBJECTS = ("pgbaton", "subscription", "pg_recvlogical")
LONGEST = 1800  # seconds


class Drain:
    def __init__(self, bench, workload):
        self.bench, self.workload, self.name = bench, workload, workload.name
        self.source, self.target = bench.servers.source, bench.servers.target

    def run(self):
        """Costs per subject and pair: {subject: [Cost, …]}."""
        self._prepare()
        costs = {subject: [] for subject in SUBJECTS}
        for pair in range(max(self.bench.pairs, 0 if self.bench.quick else self.workload.least_pairs)):
            order = SUBJECTS if pair % 2 == 0 else (SUBJECTS[1], SUBJECTS[0], SUBJECTS[2])
            for subject in order:
                costs[subject].append(self._one(subject))
                self.bench.tell(f"{self.name} {subject} {costs[subject][-1].seconds:.2f} s")
        self._tidy()
        return costs

    def _prepare(self):
        bench, source, target, name = self.bench, self.source, self.target, self.name
        base = bench.source_base(self.workload.base, bench.scale)
        source.create(name, template=base)
        source.sql(name, MARKER)
        source.sql(name, "create publication bench for all tables")
        source.sql(name, "select pg_create_logical_replication_slot('bench', 'pgoutput')")
        target.create(f"{name}_theirs")
        bench.dump_and_restore(name, f"{name}_theirs")
        target.create(f"{name}_ours")
        bench.pgbaton("clone", name, f"{name}_ours").wait()
        source.sql(name, "select pg_copy_logical_replication_slot('pgbaton', 'ours')")
        for database in (f"{name}_theirs", f"{name}_ours"):
            target.sql(database, "vacuum analyze")
        self.workload.backlog(source, name, bench.scale)
        source.sql(name, "insert into bench_done values (1)")
        self.end_lsn = source.value(name, "select pg_current_wal_flush_lsn()")
        self.expected = fingerprint(source, name, source, name)

    def _one(self, subject):
        if subject == "pg_recvlogical":
            return self._recvlogical()
        ours = subject == "pgbaton"
        self.target.create("run", template=f"{self.name}_ours" if ours else f"{self.name}_theirs")
        try:
            cost = self._pgbaton() if ours else self._subscription()
            require_equal(self.expected, fingerprint(self.source, self.name, self.target, "run"), f"{self.name}, {subject}")
            return cost
        finally:
            self._end_subscription()
            self.target.drop("run")

    def _copy_slot(self, original, copy):
        self.bench.drop_slots(self.name, f"and slot_name = '{copy}'")
        self.source.sql(self.name, f"select pg_copy_logical_replication_slot('{original}', '{copy}')")

    def _pgbaton(self):
        self._copy_slot("ours", "pgbaton")
        extra = self.bench.tail_options if self.name == "tail" else self.bench.follow_options
        probe = self.target.session("run")

        def drain():
            began = time.monotonic()
            client = self.bench.pgbaton("follow", self.name, "run", "--until", "caught-up", *extra)
            seconds = self._await_end(probe, began, client)
            client.wait()
            return seconds, [client]

        try:
            return cost_of(self.bench.servers, drain, ignored=[probe.pid])
        finally:
            probe.close()

    def _subscription(self):
        self._copy_slot("bench", "theirs")
        probe = self.target.session("run")
        create = f"""create subscription bench connection '{self.source.conninfo(self.name)}' publication bench
          with (create_slot = false, slot_name = 'theirs', copy_data = false)"""

        def drain():
            began = time.monotonic()
            self.target.sql("run", create)
            return self._await_end(probe, began), []

        try:
            return cost_of(self.bench.servers, drain, ignored=[probe.pid])
        finally:
            probe.close()

    def _await_end(self, probe, began, client=None):
        while not probe.query("select 1 from bench_done"):
            if client and client.poll() and not probe.query("select 1 from bench_done"):
                client.require_success()
                raise RuntimeError(f"{self.name}: pgbaton has ended, and the backlog's last row is not there")
            if time.monotonic() - began > LONGEST:
                raise RuntimeError(f"{self.name}: not drained after {LONGEST} s")
            time.sleep(0.01)
        return time.monotonic() - began

    def _end_subscription(self):
        if self.target.value("run", "select count(*) from pg_subscription where subname = 'bench'") == "0":
            return
        self.target.sql("run", """alter subscription bench disable; alter subscription bench set (slot_name = none);
          drop subscription bench""")
        while self.source.value(self.name, "select active from pg_replication_slots where slot_name = 'theirs'") == "t":
            time.sleep(0.05)

    def _recvlogical(self):
        self._copy_slot("bench", "received")

        def drain():
            client = Client([f"{BIN}/pg_recvlogical", "-d", self.source.conninfo(self.name), "--slot=received", "--start", "--file=/dev/null",
                             "--no-loop", f"--endpos={self.end_lsn}", "--option=proto_version=1", "--option=publication_names=bench"],
                            self.bench.log)
            client.wait(LONGEST)
            return None, [client]

        return cost_of(self.bench.servers, drain)

    def _tidy(self):
        self.bench.drop_slots(self.name)
        self.source.drop(self.name)
        for database in (f"{self.name}_theirs", f"{self.name}_ours"):
            self.target.drop(database)
