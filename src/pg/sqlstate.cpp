#include <algorithm>
#include <array>
#include <pgbaton/pg/sqlstate.hpp>

namespace pgbaton::pg {
namespace {

struct Rule {
  std::string_view prefix;  // a whole code, or the two characters of a class
  Action action;
};

// The first rule whose prefix fits wins: exact codes stand before their class.
constexpr std::array kRules{
    // Connection trouble. A protocol violation is either ours or a proxy's and comes again.
    Rule{"08P01", Action::bug}, Rule{"08", Action::retry},
    // A cancelled statement: our own timeouts are pinned to 0, so it was an administrator; the work itself is sound.
    Rule{"57014", Action::retry},
    // The database itself is gone; shutdown, crash of another backend, start-up and idle timeouts pass.
    Rule{"57P04", Action::stop}, Rule{"57P", Action::retry}, Rule{"57", Action::stop},
    // A full disk and an exhausted limit (temp_file_limit, replication slots) stay until a person acts; memory and
    // connection slots are freed by other sessions.
    Rule{"53100", Action::stop}, Rule{"53400", Action::stop}, Rule{"53", Action::retry},
    // Serialization failure, deadlock, unknown outcome of a commit (progress in the same transaction tells).
    Rule{"40002", Action::stop}, Rule{"40", Action::retry},
    // Lock not available; object in use ("slot is active for PID n": the old walsender ends a moment later).
    Rule{"55P03", Action::retry}, Rule{"55006", Action::retry}, Rule{"55P02", Action::bug}, Rule{"55", Action::stop},
    // The server ended an idle or long transaction: a new one may pass. Read-only: connected to a standby.
    Rule{"25P03", Action::retry}, Rule{"25P04", Action::retry}, Rule{"25006", Action::stop}, Rule{"25", Action::bug},
    // Objects that are missing, exist already, have another type or are not ours: drift, or a right not given.
    Rule{"42501", Action::stop}, Rule{"42P01", Action::stop}, Rule{"42P04", Action::stop}, Rule{"42P06", Action::stop},
    Rule{"42P07", Action::stop}, Rule{"42P16", Action::stop}, Rule{"42701", Action::stop}, Rule{"42703", Action::stop},
    Rule{"42704", Action::stop}, Rule{"42710", Action::stop}, Rule{"42723", Action::stop}, Rule{"42804", Action::stop},
    Rule{"42809", Action::stop}, Rule{"42846", Action::stop}, Rule{"42883", Action::stop}, Rule{"428C9", Action::stop},
    // The rest of 42 (syntax, ambiguity, parameters) means that our statement was wrong, as do the state classes.
    Rule{"42", Action::bug}, Rule{"03", Action::bug}, Rule{"24", Action::bug}, Rule{"26", Action::bug},
    Rule{"2D", Action::bug}, Rule{"34", Action::bug}, Rule{"3B", Action::bug},
    // All others need a person: 22, 23, 44 data; 28 authentication; 3D, 3F missing database or schema; 0A unsupported;
    // 58 files and I/O of the server (a removed WAL segment is 58P01); P0 an exception of a trigger; XX corruption.
};

struct Advice {
  std::string_view prefix, text;
};

constexpr std::array kAdvice{
    Advice{"42501", "GRANT the role what the message says it lacks, or connect as one that has it."},
    Advice{"25006", "This server only reads: give the primary's connection string."},
    Advice{"42P01",
           "Look whether the table was dropped or renamed, and whether the connection goes to the right database."},
    Advice{"3F000", "Look whether the schema was dropped, and whether the connection goes to the right database."},
    Advice{"53100", "Make room on the server's disk, then run the same command again."},
    Advice{"53200", "The server ran out of memory: lower --jobs, or give it more."},
    Advice{"53300", "Raise max_connections or lower --jobs."},
    Advice{"53400", "Raise the limit that the message names, then run the same command again."},
    Advice{"55P03", "Something else holds a lock on it: look into pg_locks, then run the same command again."},
    Advice{"57014", "Somebody cancelled the statement; nothing is lost, run the same command again."},
    Advice{"57P0", "The server was stopped or ended the session; nothing is lost, run the same command again."},
    Advice{"58", "The server has trouble with its files: its log tells more."},
    Advice{"XX", "The server reports an internal error: its log tells more."},
    Advice{"22", "Mend the value that the message names, then run the same command again."},
    Advice{"23", "Remove what stands against it on the target, then run the same command again."},
};

}  // namespace

std::string_view advice(std::string_view sqlstate) {
  if (sqlstate.empty()) return "Nothing is lost: check that the server runs, then run the same command again.";
  const auto found = std::ranges::find_if(kAdvice, [&](const Advice& a) { return sqlstate.starts_with(a.prefix); });
  return found == kAdvice.end() ? "" : found->text;
}

Action classify(std::string_view sqlstate) {
  if (sqlstate.empty()) return Action::retry;
  const auto rule = std::ranges::find_if(kRules, [&](const Rule& r) { return sqlstate.starts_with(r.prefix); });
  return rule == kRules.end() ? Action::stop : rule->action;
}

bool is_data_error(std::string_view sqlstate) {
  // 21000: ON CONFLICT met one row twice, because two keys of a batch are equal only for the target (1.0 and 1.00).
  return sqlstate.starts_with("22") || sqlstate.starts_with("23") || sqlstate.starts_with("44") || sqlstate == "21000";
}

bool is_snapshot_gone(std::string_view sqlstate) {
  return sqlstate == "22023" || sqlstate == "42704" || sqlstate == "55000";
}

}  // namespace pgbaton::pg
