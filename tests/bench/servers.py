"""Throw-away PostgreSQL servers that a run of the benchmark owns: a source and a target of major 15, with fsync on."""

import os
import random
import shutil
import socket
import subprocess
import tempfile

from session import Session

BIN = "/usr/lib/postgresql/15/bin"

# Nothing is tuned against anybody: both sides are alike, durable, and large enough in WAL that no checkpoint falls into
# a measurement by chance (one is made before each). Autovacuum would start at a different moment in each run.
SETTINGS = """
listen_addresses = '127.0.0.1'
wal_level = logical
fsync = on
shared_buffers = 512MB
max_wal_size = 24GB
checkpoint_timeout = 1h
autovacuum = off
max_replication_slots = 40
max_wal_senders = 40
max_worker_processes = 24
max_locks_per_transaction = 512
log_checkpoints = off
"""


def as_server(command):
    """Servers refuse to run as root."""
    if os.getuid() != 0:
        return command
    return ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] + command


def free_port():
    while True:
        port = random.randint(20000, 32000)
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                return port


def run(command, **options):
    """Runs a command to its end; its output and error in the exception when it fails."""
    done = subprocess.run(command, capture_output=True, text=True, **options)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)[:300]}\nexit code {done.returncode}\n{done.stdout[-1000:]}{done.stderr[-2000:]}")
    return done.stdout


class Cluster:
    def __init__(self, name, work):
        self.name, self.port = name, free_port()
        self.data = os.path.join(work, name)
        self._log = os.path.join(work, name + ".log")
        run(as_server([f"{BIN}/initdb", "-D", self.data, "-U", "postgres", "--no-sync", "--locale=C.UTF-8", "-E", "UTF8", "-A", "trust"]))
        with open(os.path.join(self.data, "postgresql.conf"), "a") as conf:
            conf.write(f"{SETTINGS}port = {self.port}\nunix_socket_directories = '{work}'\n")
        run(as_server([f"{BIN}/pg_ctl", "-D", self.data, "-l", self._log, "-w", "start"]), stdin=subprocess.DEVNULL)
        with open(os.path.join(self.data, "postmaster.pid")) as file:
            self.pid = int(file.readline())

    def stop(self):
        subprocess.run(as_server([f"{BIN}/pg_ctl", "-D", self.data, "-m", "immediate", "stop"]), capture_output=True)

    def conninfo(self, database):
        return f"host=127.0.0.1 port={self.port} user=postgres dbname={database}"

    def sql(self, database, text, options=""):
        """Runs statements one by one; returns what they print."""
        environment = dict(os.environ, PGOPTIONS=options)
        return run(["psql", "-qAtX", "-v", "ON_ERROR_STOP=1", "-d", self.conninfo(database)], input=text, env=environment)

    def value(self, database, text):
        return self.sql(database, text).strip()

    def session(self, database):
        return Session(self.port, database)

    def create(self, database, template="template0"):
        # A copy of files: both sides of a pair begin with equally cold buffers, and no WAL of the making is left over.
        self.sql("postgres", f"create database {database} template {template} strategy file_copy")

    def drop(self, database):
        self.sql("postgres", f"drop database if exists {database} with (force)")

    def wal_position(self):
        return int(self.value("postgres", "select pg_current_wal_insert_lsn() - '0/0'"))

    def checkpoint(self):
        self.sql("postgres", "checkpoint")


class Servers:
    """Source and target, started on entering and gone on leaving, whatever happens between."""

    def __enter__(self):
        self.work = tempfile.mkdtemp(prefix="pgbaton-bench.", dir=os.environ.get("TMPDIR", "/tmp"))
        os.chmod(self.work, 0o755)
        if os.getuid() == 0:
            shutil.chown(self.work, "postgres", "postgres")
        self.both = []
        try:
            for name in ("source", "target"):
                self.both.append(Cluster(name, self.work))
        except BaseException:
            self.__exit__()
            raise
        self.source, self.target = self.both
        return self

    def __exit__(self, *_):
        for cluster in self.both:
            cluster.stop()
        shutil.rmtree(self.work, ignore_errors=True)
