"""From the source's commit to the row being visible on the target, at a fixed rate, on an otherwise idle stream.

One process commits single rows at a steady pace and notes when the source has answered; another asks the target again
and again which row is the last and notes when it first saw each. Both read the same clock. The time of one question is
in the result, about 0.1 ms, and the pause between two, 0.3 ms.
"""

import multiprocessing
import time

from compare import fingerprint, require_equal


def _watch(port, database, count, seen):
    from session import Session

    session, last, times = Session(port, database), 0, {}
    give_up = time.monotonic() + 600
    seen.put("ready")
    while last < count and time.monotonic() < give_up:
        newest = int(session.query("select coalesce(max(id), 0) from beat")[0][0])
        now = time.monotonic()
        for number in range(last + 1, newest + 1):
            times[number] = now
        last = newest
        time.sleep(0.0003)
    seen.put(times)


class Latency:
    SUBJECTS = ("pgbaton", "subscription")

    def __init__(self, bench, rate):
        self.bench, self.rate = bench, rate
        self.source, self.target = bench.servers.source, bench.servers.target
        self.count = int(rate * (3 if bench.quick else 10))

    def run(self):
        """{subject: [sorted list of milliseconds, …]}"""
        found = {subject: [] for subject in self.SUBJECTS}
        for pair in range(self.bench.pairs):
            for subject in self.SUBJECTS[:: 1 if pair % 2 == 0 else -1]:
                found[subject].append(self._one(subject))
                values = found[subject][-1]
                self.bench.tell(f"latency at {self.rate}/s, {subject}: p50 {percentile(values, 50):.1f} ms, p99 {percentile(values, 99):.1f} ms")
        return found

    def _one(self, subject):
        self.source.create("beat")
        self.source.sql("beat", "create table beat (id bigint primary key, at timestamptz default now())")
        self.target.create("run")
        client = None
        try:
            if subject == "pgbaton":
                client = self.bench.pgbaton("clone", "beat", "run", "--follow")
                self.bench.pgbaton("wait", "beat", "run", "--for", "ready", "--timeout", "60s").wait()
            else:
                self.target.sql("run", "create table beat (id bigint primary key, at timestamptz default now())")
                self.source.sql("beat", "create publication bench for all tables")
                self.target.sql("run", f"create subscription bench connection '{self.source.conninfo('beat')}' publication bench")
                while self.target.value("run", "select srsubstate from pg_subscription_rel") != "r":
                    time.sleep(0.05)
            for cluster in self.bench.servers.both:
                cluster.checkpoint()
            time.sleep(1)
            values = self._beat()
            require_equal(fingerprint(self.source, "beat", self.source, "beat"), fingerprint(self.source, "beat", self.target, "run"),
                          f"latency, {subject}")
            return values
        finally:
            if client:
                client.process.terminate()
                client.wait(60)
            self.bench.clean_up_after("beat")
            self.source.drop("beat")

    def _beat(self):
        seen = multiprocessing.Queue()
        watcher = multiprocessing.Process(target=_watch, args=(self.target.port, "run", self.count, seen), daemon=True)
        watcher.start()
        seen.get(timeout=30)
        session, committed = self.source.session("beat"), {}
        begin = time.monotonic()
        for number in range(1, self.count + 1):
            wait = begin + number / self.rate - time.monotonic()
            if wait > 0:
                time.sleep(wait)
            session.query(f"insert into beat (id) values ({number})")
            committed[number] = time.monotonic()
        times = seen.get(timeout=660)
        watcher.join()
        session.close()
        if len(times) < self.count:
            raise RuntimeError(f"only {len(times)} of {self.count} rows became visible")
        return sorted((times[number] - committed[number]) * 1000 for number in committed)


def percentile(values, percent):
    return values[min(len(values) - 1, len(values) * percent // 100)]
