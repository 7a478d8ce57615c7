"""What a run costs: seconds, CPU of every process that takes part, peak memory of the client, WAL of the target.

CPU of server processes is sampled from /proc, because a backend takes its counters with it when it ends: what it used
in its last 30 ms may be missing. CPU of clients is what the kernel reports at their end, exactly.
"""

import dataclasses
import os
import subprocess
import threading
import time

TICK = os.sysconf("SC_CLK_TCK")
BACKGROUND = ("checkpointer", "background writer", "walwriter", "autovacuum", "archiver", "stats", "startup", "logical replication launcher")


@dataclasses.dataclass
class Cost:
    seconds: float = 0.0
    source_cpu: float = 0.0  # backends and walsenders
    target_cpu: float = 0.0  # backends, apply and parallel workers
    server_cpu: float = 0.0  # of both: writers, checkpointers
    client_cpu: float = 0.0
    client_mb: float = 0.0  # peak resident memory of the largest client process
    target_wal_mb: float = 0.0


def _read(path):
    try:
        with open(path) as file:
            return file.read()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def _cpu(pid):
    """User and system seconds of all threads, and what identifies the process besides its pid; None when it is gone."""
    stat = _read(f"/proc/{pid}/stat")
    if not stat:
        return None
    fields = stat[stat.rindex(")") + 2 :].split()
    return (int(fields[11]) + int(fields[12])) / TICK, fields[19]


def _peak_mb(pid):
    for line in _read(f"/proc/{pid}/status").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return 0.0


class Sampler:
    """Adds up the CPU of two servers' processes from start() to stop(). Processes of `ignored` are the probes' own."""

    def __init__(self, servers, ignored=()):
        self._sides = {"source_cpu": servers.source.pid, "target_cpu": servers.target.pid}
        self._ignored = set(ignored)
        self._first, self._last = {}, {}
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._loop, daemon=True)
        self._look(first=True)
        self._thread.start()

    def stop(self):
        self._done.set()
        self._thread.join()
        self._look()
        sums = {"source_cpu": 0.0, "target_cpu": 0.0, "server_cpu": 0.0}
        for key, (kind, seconds) in self._last.items():
            sums[kind] += seconds - self._first.get(key, 0.0)
        return sums

    def _loop(self):
        while not self._done.wait(0.03):
            self._look()

    def _look(self, first=False):
        for side, postmaster in self._sides.items():
            for pid in _read(f"/proc/{postmaster}/task/{postmaster}/children").split():
                found = _cpu(pid)
                if found is None or int(pid) in self._ignored:
                    continue
                key = (pid, found[1])
                if first:
                    self._first[key] = found[0]
                title = _read(f"/proc/{pid}/cmdline")
                background = any(name in title for name in BACKGROUND)
                self._last[key] = ("server_cpu" if background else side, found[0])


class Client:
    """A process whose CPU and peak memory count. Its output goes to a file; the end of it is in the error."""

    def __init__(self, command, log, **options):
        self._command, self._log = command, log
        with open(log, "a") as output:
            options.setdefault("stdout", output)
            self.process = subprocess.Popen(command, stderr=output, **options)
        self.cpu, self.peak_mb, self.code = 0.0, 0.0, None

    def poll(self):
        """True once it has ended."""
        if self.code is None:
            self.peak_mb = max(self.peak_mb, _peak_mb(self.process.pid))
            pid, status, usage = os.wait4(self.process.pid, os.WNOHANG)
            if pid != 0:
                self.code = os.waitstatus_to_exitcode(status)
                self.process.returncode = self.code
                self.cpu = usage.ru_utime + usage.ru_stime
        return self.code is not None

    def wait(self, limit=3600):
        end = time.monotonic() + limit
        while not self.poll():
            if time.monotonic() > end:
                self.kill()
                raise RuntimeError(f"{self._name()} did not end within {limit} s")
            time.sleep(0.005)
        self.require_success()
        return self

    def require_success(self):
        if self.code not in (None, 0):
            raise RuntimeError(f"{self._name()} ended with exit code {self.code}: {_read(self._log)[-2000:]}")

    def kill(self):
        if self.code is None:
            self.process.kill()
            self.process.wait()
            self.code = -9

    def _name(self):
        return " ".join(self._command[:2])


def cost_of(servers, what, ignored=()):
    """Runs what(), which returns (seconds or None, clients that it started), and returns the Cost of it."""
    for cluster in servers.both:
        cluster.checkpoint()
    os.sync()
    wal_before = servers.target.wal_position()
    sampler = Sampler(servers, ignored)
    began = time.monotonic()
    try:
        seconds, clients = what()
    finally:
        ended = time.monotonic()
        sums = sampler.stop()
    cost = Cost(seconds=seconds if seconds is not None else ended - began, **sums)
    cost.client_cpu = sum(client.cpu for client in clients)
    cost.client_mb = max((client.peak_mb for client in clients), default=0.0)
    cost.target_wal_mb = (servers.target.wal_position() - wal_before) / 2**20
    return cost
