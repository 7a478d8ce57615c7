#include <pgbaton/app/options.hpp>

#include <algorithm>
#include <array>

#include "cmd_switchover.hpp"
#include "command.hpp"

namespace pgbaton::app {

namespace {

const std::array kCommands = {
    Command{
        "check", kCheck, "", "look for everything that would make a clone fail or lose something",
        "Reads both sides in read-only transactions, changes nothing, and prints every finding with its severity and\n"
        "what to do about it (conditions and column lists of `tables` are tried and rolled back). Works without "
        "--target; the target's part is then left out. Ends with 0, or with 3 when\n"
        "a blocker was found.",
        "pgbaton check --source service=shop\n"
        "pgbaton check --source service=shop --target service=shop_copy --json\n"
        "pgbaton check --rebuild --config /etc/pgbaton/app.yaml",
        run_check},
    Command{
        "clone", kClone, "", "slot, schema, copy, indexes, then the stream of changes",
        "Makes publications and a slot on the source, copies schema and rows as the slot's snapshot shows them, "
        "builds\n"
        "indexes and constraints, and then applies what was committed since. Without --follow or --until it ends "
        "after\n"
        "the copy and leaves the slot, from which `follow` goes on.\n"
        "Run again on an unfinished replica it resumes: finished tables stay, the rest is copied at a new boundary.\n"
        "Run again on a copied one it does what its flags say. Another source or other tables are refused.",
        "pgbaton clone --source service=shop --target service=shop_copy --follow\n"
        "pgbaton clone --config shop.yaml --until caught-up --jobs 8\n"
        "pgbaton clone --source service=shop --target service=shop_copy --dry-run",
        run_clone},
    Command{
        "follow", kFollow, "", "continue a replica: apply changes as they are committed on the source",
        "Runs until it is stopped (SIGTERM or SIGINT finish the batch, commit, confirm and end with 0), or as far as\n"
        "--until or --until-lsn say. Reconnects by itself; with an end it gives up (exit 5) after --give-up-after "
        "without\n"
        "a connection or without any progress. Needs a replica that is copied: see `clone`.",
        "pgbaton follow --config shop.yaml\n"
        "pgbaton follow --config shop.yaml --until caught-up\n"
        "pgbaton follow --config shop.yaml --until-lsn 1A/2B3C4D58",
        run_follow},
    Command{"status", kStatus, "", "where a replica stands",
            "Reads the state on the target and, when it can be reached, the source: phase, readiness, writer, "
            "positions, lag,\n"
            "rates, WAL held, guards, last errors, every table, and who waits behind our locks. Times are in UTC. "
            "Without a\n"
            "replica the phase is none and the exit code 0; without --name the only replica of the target is shown. "
            "Phases:\n"
            "creating (slot, schema), copying, indexing, streaming (copied, not caught up yet), ready.",
            "pgbaton status --config shop.yaml\n"
            "pgbaton status --config shop.yaml --json | jq .lag.bytes",
            run_status},
    Command{
        "wait", kWait, "", "wait until a replica is copied, indexed, caught up or ready",
        "Only reads state, so it may run anywhere, also before the clone was started; says when no writer runs. Ends\n"
        "with 5 at the timeout, and"
        " with the writer's exit code when the writer recorded an error:\nat once when that is newer than the wait, "
        "and\n"
        "for an older one when no writer holds the replica within 3 s.",
        "pgbaton wait --for ready --timeout 2h --target service=shop_copy\n"
        "pgbaton wait --for caught-up --timeout 30s --config shop.yaml",
        run_wait},
    Command{
        "verify", kVerify, "[--repair]", "compare both sides at one cut while both are live",
        "Takes a cut, at which both sides show exactly the same transactions, and compares every table by row counts "
        "and\n"
        "hashes that the servers compute; the rows that differ are named by key. Changes wait at the cut for tens of\n"
        "milliseconds, then go on. Works beside a running `clone --follow` or `follow`; without one it streams "
        "itself.\n"
        "--repair writes the rows that differ as the source has them, while changes wait once more, and compares "
        "again.\n"
        "Ends with 0, or with 6 when differences were found (with --repair: when some remain, 8 when a table cannot "
        "be\n"
        "repaired, which does not stop the others).",
        "pgbaton verify --config shop.yaml\n"
        "pgbaton verify --config shop.yaml --include-table 'public.order*' --max-rate 100MB --json\n"
        "pgbaton verify --config shop.yaml --repair",
        run_verify},
    Command{
        "resync", kResync, "TABLE…", "copy tables again while the stream of all others goes on",
        "Copies the named tables again from a new snapshot, applies what was committed since, and gives them back to\n"
        "the replica's stream at one exact position; all other tables go on meanwhile. Readers of the target see the\n"
        "rows as they were when it began, until a table's copy is committed, then newer ones, and until the end older\n"
        "ones than in the other tables. Works beside a running `clone --follow` or `follow`; without one it streams\n"
        "itself. Names by SQL identifier rules, with the patterns of --include-table; a partitioned table stands for\n"
        "its partitions. Killed in the middle, run it again: it goes on.\n"
        "--where: only the rows for which the condition holds on either side; they are compared at a cut, and those\n"
        "that differ are replaced by what the source has, as `verify --repair` does it (same output, exit 6 if some\n"
        "remain).\n"
        "--add: new tables. They are made on the target (types and schemas that they need must be there), copied,\n"
        "published, and streamed by the replica from one exact position on.",
        "pgbaton resync public.orders --config shop.yaml\n"
        "pgbaton resync 'audit.*' customers --config shop.yaml --jobs 2\n"
        "pgbaton resync orders --where 'customer_id = 17' --config shop.yaml\n"
        "pgbaton resync --add public.invoices --config shop.yaml",
        run_resync},
    Command{
        "rebuild", kRebuild, "", "build a new generation beside the live one and swap it in",
        "Made for cron. Makes a new database on the target's server, copies the source into it, catches up, compares\n"
        "(--verify), runs your SQL (--sql), and puts it under the live name, which is the database in --target, in "
        "one\n"
        "transaction. The former one stays as <name>__g<id> (--keep); --rollback puts it back, --list shows all. If\n"
        "anything fails before the swap, the live database is as it was, and the next run removes what is left.\n"
        "Silent when all went well, one line on stderr when not; --verbose or --json say more. While one runs, "
        "another\n"
        "ends at once with 7. `check --rebuild` says which rights are missing.",
        "pgbaton rebuild --config /etc/pgbaton/app.yaml\n"
        "pgbaton rebuild --config app.yaml --verify --sql mask.sql --keep 2 --max-duration 4h --json\n"
        "pgbaton rebuild --config app.yaml --list\n"
        "pgbaton rebuild --config app.yaml --rollback",
        run_rebuild},
    Command{"sequences", kSequences, "", "set the target's sequences to the source's values",
            "Sets every sequence that exists on both sides to the source's last value, plus --gap increments; all or "
            "none.\n"
            "Those that the target lacks are named. Needs no replica: it may be run before and after `finish`, and is "
            "to be\n"
            "run before the target takes writes.",
            "pgbaton sequences --config shop.yaml\n"
            "pgbaton sequences --config shop.yaml --gap 1000",
            run_sequences},
    Command{
        "switchover", kSwitchover, "", "move the application to the target, step by step",
        "Fences the writers of the source, lets the target reach a position behind everything that they committed, "
        "sets\n"
        "sequences, verifies, and opens the target. Any failure before that opens the source again, within a second;\n"
        "so does a watchdog process when this one dies. Every step is printed and timed; killed after the flip, run "
        "it\n"
        "again: it goes on. Works beside a running follower, which it stops, or without one.\n"
        "--dry-run fences nobody: it looks for what stands in the way and prints the pause to expect, step by step.\n"
        "--mode read-only sends only the readers (hook-readers, pgbouncer-readers), hours before if you like: nobody "
        "is\n"
        "fenced, writers stay, the stream goes on. An ordinary run sends them, too, before the writers.\n"
        "Afterwards `pgbaton follow` streams back, and --rollback moves the application back in the same way.\n"
        "--undo, for a run that was lost with its machine, takes the fence off the source, sends readers back, and "
        "lets\n"
        "the target take writes of others again; after the flip only with --force. Settings: section `switchover:` of "
        "the\n"
        "file.",
        "pgbaton switchover --config shop.yaml --dry-run\n"
        "pgbaton switchover --config shop.yaml --mode read-only\n"
        "pgbaton switchover --config shop.yaml\n"
        "pgbaton switchover --config shop.yaml --rollback\n"
        "pgbaton switchover --config shop.yaml --undo",
        run_switchover},
    Command{
        "finish", kFinish, "", "end a replica in good order: the target becomes an ordinary database",
        "Stop the application's writes first: what the source commits after finish has begun is not carried over.\n"
        "Needs that no writer runs and that the replica is ready (else 3; --force). Applies what the source has\n"
        "committed so far and says up to which LSN the target is complete, creates what was deferred, removes guard "
        "columns, slot, publications and state. Sequences\n"
        "are left as they are: see `sequences`. Killed in the middle it can be run again; when nothing is left to do\n"
        "it says so and ends with 0.",
        "pgbaton finish --config shop.yaml\n"
        "pgbaton finish --config shop.yaml --force",
        run_finish},
    Command{
        "drop", kDrop, "", "remove what a replica left: slot, publications, guard columns, state",
        "Throws the replica away as it is: what was not applied yet is not applied any more (`finish` applies it).\n"
        "Removes whatever is left of it on both sides, and the fence that a switchover has left on the source when it\n"
        "was lost before its flip; user tables and their rows stay. When one side cannot be reached it does the "
        "other,\n"
        "prints the rest and ends with 1. When nothing is left it ends with 0.",
        "pgbaton drop --config shop.yaml\n"
        "pgbaton drop --source service=shop --target service=shop_copy --name old --take-over",
        run_drop},
};

}  // namespace

std::span<const Command> command_table() {
  return kCommands;
}

const Command* find_command(std::string_view name) {
  auto found = std::ranges::find(kCommands, name, &Command::name);
  return found == kCommands.end() ? nullptr : &*found;
}

}  // namespace pgbaton::app
