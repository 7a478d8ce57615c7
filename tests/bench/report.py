"""The table that a run prints, its goals, and the line it leaves in tests/data/bench-results.jsonl."""

import json
import os
import statistics

from latency import percentile

COLUMNS = (("seconds", "seconds", 9, 2), ("source_cpu", "source", 8, 1), ("target_cpu", "target", 8, 1), ("server_cpu", "servers", 8, 1),
           ("client_cpu", "client", 8, 2), ("client_mb", "peak MB", 9, 0), ("target_wal_mb", "WAL MB", 8, 0))


def ratio(costs, numerator, denominator):
    """Median of the ratios within each pair: what stands close in time met the same load."""
    pairs = zip(costs[numerator], costs[denominator])
    return statistics.median(a.seconds / b.seconds for a, b in pairs)


class Report:
    def __init__(self):
        self.lines, self.goals, self.measures = [], [], {}

    # --- what was measured

    def add_costs(self, name, title, costs, against):
        """One block: a line per subject, medians, and each subject's time over that of `against`."""
        head = f"{name}  {title}"
        self.lines += ["", head, f"  {'':24}" + "".join(f"{label:>{width}}" for _, label, width, _ in COLUMNS) + f"{'time ÷':>9} {against}"]
        self.measures[name] = {}
        for subject, many in costs.items():
            line, medians = f"  {subject:24}", {}
            for field, _, width, digits in COLUMNS:
                medians[field] = round(statistics.median(getattr(cost, field) for cost in many), 3)
                line += f"{medians[field]:>{width}.{digits}f}"
            medians["all_seconds"] = [round(cost.seconds, 3) for cost in many]
            self.measures[name][subject] = medians
            self.lines.append(line + f"{ratio(costs, subject, against):>9.2f}")

    def add_latency(self, name, title, found):
        self.lines += ["", f"{name}  {title}", f"  {'':24}{'p50 ms':>9}{'p99 ms':>9}{'max ms':>9}"]
        self.measures[name] = {}
        for subject, runs in found.items():
            p50, p99, most = (statistics.median(percentile(run, p) for run in runs) for p in (50, 99, 100))
            self.measures[name][subject] = {"p50_ms": round(p50, 2), "p99_ms": round(p99, 2), "max_ms": round(most, 2)}
            self.lines.append(f"  {subject:24}{p50:>9.1f}{p99:>9.1f}{most:>9.1f}")

    # --- goals

    def at_most(self, measure, found, limit, unit=""):
        self._goal(measure, found, f"≤ {limit}{unit}", found <= limit)

    def at_least(self, measure, found, limit, unit=""):
        self._goal(measure, found, f"≥ {limit}{unit}", found >= limit)

    def _goal(self, measure, found, goal, met):
        self.goals.append({"measure": measure, "found": round(found, 3), "goal": goal, "met": bool(met)})

    def print(self, header):
        print("\n".join(header + self.lines))
        print("\nGoals" + " " * 55 + f"{'found':>9}   goal")
        for goal in self.goals:
            print(f"  {goal['measure']:58}{goal['found']:>9.2f}   {goal['goal']:10}{'' if goal['met'] else '  not met'}")

    def document(self, about):
        return {**about, "goals": self.goals, "measures": self.measures}


def append_line(path, document):
    with open(path, "a") as file:
        file.write(json.dumps(document, ensure_ascii=False, separators=(",", ":")) + "\n")


def most_memory(costs):
    return max((cost.client_mb for many in costs for cost in many), default=0.0)


def load_average():
    return [round(value, 2) for value in os.getloadavg()]


