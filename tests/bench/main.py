"""The story of a run: servers, measurements, table, results. Started by scripts/bench, which documents the options."""

import argparse
import datetime
import json
import os
import shutil
import signal
import subprocess
import sys
import time

from clone import Copies, ManyTables
from drain import Drain
from latency import Latency
from measure import Client
from report import Report, append_line, load_average, most_memory, ratio
from servers import BIN, Servers, run
from workloads import WORKLOADS

QUICK = ("copy", "w1", "w2", "w3h", "w5", "latency")
ALL = ("copy", *(w.name for w in WORKLOADS), "latency", "many")


class Bench:
    """What all measurements share: the servers, the tool, and how much is asked for."""

    def __init__(self, options, servers):
        self.servers, self.tool = servers, options.tool
        self.scale, self.pairs, self.quick = options.scale, options.pairs, options.quick
        self.clone_options, self.follow_options, self.tail_options = options.clone_options, options.follow_options, options.tail_options
        self.log = os.path.join(servers.work, "clients.log")
        self.has_pgcopydb = shutil.which("pgcopydb") is not None
        self._bases = {}

    def tell(self, what):
        print(f"  {datetime.datetime.now():%H:%M:%S}  {what}   (load {os.getloadavg()[0]:.1f})", file=sys.stderr, flush=True)

    def pgbaton(self, command, source_database, target_database, *options):
        return Client([self.tool, command, "--source", self.servers.source.conninfo(source_database),
                       "--target", self.servers.target.conninfo(target_database), "--progress", "none", *options], self.log)

    def source_base(self, make, scale):
        """The database that make() fills; several workloads begin with a copy of it."""
        if make not in self._bases:
            name = self._bases[make] = f"base_{make.__name__}"
            self.servers.source.create(name)
            make(self.servers.source, name, scale)
        return self._bases[make]

    def dump_and_restore(self, source_database, target_database):
        dump = subprocess.Popen([f"{BIN}/pg_dump", "--no-publications", self.servers.source.conninfo(source_database)], stdout=subprocess.PIPE)
        run(["psql", "-qX", "-v", "ON_ERROR_STOP=1", "-d", self.servers.target.conninfo(target_database)], stdin=dump.stdout)
        if dump.wait() != 0:
            raise RuntimeError("pg_dump failed")

    def drop_slots(self, database, condition=""):
        """All slots of a database of the source. One that was just in use may be for a moment longer."""
        of_database = f"from pg_replication_slots where database = '{database}' {condition}"
        give_up = time.monotonic() + 30
        while self.servers.source.value("postgres", f"select count(*) {of_database} and active") != "0" and time.monotonic() < give_up:
            time.sleep(0.05)
        self.servers.source.sql(database, f"select pg_drop_replication_slot(slot_name) {of_database}")

    def clean_up_after(self, source_database):
        """Removes subscription, target database, and what a replica leaves on the source."""
        source, target = self.servers.source, self.servers.target
        if target.value("run", "select count(*) from pg_subscription s join pg_database d on d.oid = s.subdbid where d.datname = 'run'") != "0":
            target.sql("run", "drop subscription bench")
        target.drop("run")
        self.drop_slots(source_database)
        for publication in source.value(source_database, "select pubname from pg_publication").split():
            source.sql(source_database, f"drop publication {publication}")


def measure_copies(bench, report):
    costs = Copies(bench).run()
    report.add_costs("copy", f"pgbench scale {max(1, round(50 * bench.scale))}", costs, "psql pipe")
    report.at_most("copy, no index: time ÷ psql text pipe", ratio(costs, "pgbaton, no key", "psql pipe"), 0.80)
    report.at_most("clone with primary key: time ÷ the same pipe", ratio(costs, "pgbaton", "psql pipe"), 1.15)
    return [costs["pgbaton, no key"], costs["pgbaton"]]


def measure_drain(bench, report, workload):
    costs = Drain(bench, workload).run()
    ours = costs["pgbaton"]
    report.add_costs(workload.name, workload.title, costs, "pgbaton")
    if workload.goal:
        report.at_least(f"{workload.name}: built-in time ÷ ours", ratio(costs, "subscription", "pgbaton"), workload.goal)
    millions = workload.changes * bench.scale / 1e6
    if workload.name == "tail":
        report.at_most("tail: client CPU per 1 M changes", sum(c.client_cpu for c in ours) / len(ours) / millions, 0.5, " s")
    else:
        report.at_most(f"{workload.name}: source CPU per 1 M changes", sum(c.source_cpu for c in ours) / len(ours) / millions, 3, " s")
    return [ours]


def measure_latency(bench, report):
    for rate in (20, 200):
        found = Latency(bench, rate).run()
        name = f"latency{rate}"
        report.add_latency(name, f"commit → visible, {rate} transactions/s", found)
        report.at_most(f"commit → visible at {rate}/s: p50", report.measures[name]["pgbaton"]["p50_ms"], 5, " ms")
        report.at_most(f"commit → visible at {rate}/s: p99", report.measures[name]["pgbaton"]["p99_ms"], 50, " ms")


def measure_many(bench, report):
    costs = ManyTables(bench).run()
    few, many = costs
    report.add_costs("many", "clones of many small tables", costs, few)
    report.at_most(f"clone of {many}: time ÷ 10 × {few}", ratio(costs, many, few) / 10, 1.1)
    return list(costs.values())


def measure(bench, report, only):
    ours = []
    if "copy" in only:
        ours += measure_copies(bench, report)
    for workload in WORKLOADS:
        if workload.name in only:
            ours += measure_drain(bench, report, workload)
    if "latency" in only:
        measure_latency(bench, report)
    if "many" in only:
        ours += measure_many(bench, report)
    if ours:
        report.at_most("client peak memory", most_memory(ours), 256, " MB")


def parse(arguments):
    parser = argparse.ArgumentParser(prog="scripts/bench", add_help=False, allow_abbrev=False)
    parser.add_argument("--tool", required=True)
    parser.add_argument("--commit", default="unknown")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--pairs", type=int)
    parser.add_argument("--scale", type=float)
    parser.add_argument("--only", default="")
    parser.add_argument("--json", default="")
    parser.add_argument("--results", default="")
    for name, default in (("clone", ""), ("follow", "--reader auto"), ("tail", "--reader walsender")):
        parser.add_argument(f"--{name}-options", default=default)
    options = parser.parse_args(arguments)
    for name in ("clone", "follow", "tail"):
        setattr(options, f"{name}_options", getattr(options, f"{name}_options").split())
    options.pairs = options.pairs or (1 if options.quick else 3)
    options.scale = options.scale or (0.04 if options.quick else 1.0)
    names = options.only.split(",") if options.only else (QUICK if options.quick else ALL)
    known = {"w3": ["w3u", "w3t", "w3h"]} | {name: [name] for name in ALL}
    for name in names:
        if name not in known:
            parser.error(f"--only: \"{name}\" is none of {', '.join(known)}")
    options.only = [each for name in names for each in known[name]]
    return options


def main():
    options = parse(sys.argv[1:])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    about = {"date": f"{datetime.datetime.now():%Y-%m-%d %H:%M}", "commit": options.commit, "cpus": os.cpu_count(), "scale": options.scale,
             "pairs": options.pairs, "load_before": load_average()}
    report = Report()
    with Servers() as servers:
        measure(Bench(options, servers), report, options.only)
    about["load_after"] = load_average()
    report.print([f"pgbaton {options.commit}, {about['date']}, {about['cpus']} CPUs, scale {options.scale:g}, {options.pairs} pairs; "
                  f"load {about['load_before'][0]} before, {about['load_after'][0]} after",
                  "Medians; CPU in seconds (source: backends and walsenders; target: backends and apply workers; servers: writers of both)."])
    document = report.document(about)
    if options.json:
        with open(options.json, "w") as file:
            json.dump(document, file, indent=1, ensure_ascii=False)
    if options.results:
        append_line(options.results, document)


if __name__ == "__main__":
    main()
