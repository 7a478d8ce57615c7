// Schema pgbaton on the target: the only durable state there is. The tables are created from sql/target_schema.sql and
// described there. One Store uses one control connection and one thread.
//
// A replica's phases only go forward within a generation:
//   creating → copying → indexing → streaming → ready          (finish and drop remove the row)
// `creating`: names of slot and publications are recorded before they are made, so that whatever a crash leaves can be
// found. `copying`: slot exists, consistent point known. `indexing`: every table committed; constraints and foreign
// keys. `streaming`: the copy is complete and valid. `ready`: caught up once (sticky per generation).
#pragma once
#include <pgbaton/base/lsn.hpp>
#include <pgbaton/base/name.hpp>
#include <pgbaton/pg/control.hpp>

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace pgbaton::state {

enum class Phase { none, creating, copying, indexing, streaming, ready };
std::string_view to_string(Phase phase);
Phase parse_phase(std::string_view text);

enum class TablePhase { pending, copying, copied, indexed, done, skipped };
std::string_view to_string(TablePhase phase);
TablePhase parse_table_phase(std::string_view text);

enum class GuardKind { column, ledger, none };
std::string_view to_string(GuardKind kind);
GuardKind parse_guard_kind(std::string_view text);

// The steps of readiness of one generation, each of them sticky. Times are ISO 8601 in UTC, "" when not reached or, for
// a generation that is older than the columns, not known: the phase tells.
struct Readiness {
  std::string copied_at;             // every row is committed (phase indexing and later)
  std::string indexed_at;            // indexes, constraints and guards are there and valid (streaming and later)
  std::string ready_at;              // the stream has durably reached goal_lsn, and the lag was below lag_limit_bytes
  Lsn goal_lsn;                      // the source's position, observed after indexed_at; 0 until then
  Lsn ready_lsn;                     // applied when it became ready
  std::int64_t lag_limit_bytes = 0;  // --ready-lag of the last writer; 0 until one has streamed
};

// The source was found to be its own past (source/history.hpp), and where that server and its slot stood then.
struct HistoryBreak {
  std::string message, hint, at;  // at: ISO 8601 in UTC
  std::uint32_t timeline = 0;
  Lsn flush_lsn, slot_lsn;
};

struct Replica {
  std::string name;
  std::string generation;  // a UUID
  std::uint64_t source_system_id = 0;
  std::uint32_t source_timeline = 0;
  std::string source_database;
  std::string slot, publication, publication_inserts;  // publication_inserts "" when not needed
  bool owns_publication = true;                        // false: made by an administrator, never dropped
  Lsn consistent_point;                                // 0 until the slot exists
  Phase phase = Phase::none;
  std::int64_t epoch = 0;
  std::string direction = "forward";
  std::string options;      // JSON of the options that must not change between runs (tables, schema mode, guard …)
  std::string writer_host;  // "" when nobody wrote it yet
  int writer_pid = 0;
  int writer_backend_pid = 0;  // of the lease connection on the target
  std::string writer_since;
  std::string last_error;         // JSON {kind, exit_code, message, hint, at} or ""; cleared by the next start
  bool replica_role = true;       // session_replication_role = replica is used by the apply sessions
  bool schema_restored = false;   // section pre-data of the schema is on the target, committed
  std::string publication_state;  // source::load_publication_state() when the slot was made; "" not known
  std::optional<HistoryBreak> history_break;
  Readiness readiness;
  std::vector<std::string> publications() const {
    return publication_inserts.empty() ? std::vector{publication} : std::vector{publication, publication_inserts};
  }
};

struct TableState {
  std::uint32_t source_oid = 0;
  QualifiedName name;
  bool inserts_only = false;  // in publication_inserts
  Lsn boundary;               // commit LSN >= boundary is applied; 0 until copied
  Lsn floor;                  // commit LSN of the last TRUNCATE; 0 none
  GuardKind guard = GuardKind::column;
  bool guarded = false;  // the guard column or the ledger exists (or the kind is none)
  // Of kind ledger: the side table's name in schema pgbaton, and the key columns it was made for (quoted, with commas).
  std::string ledger, ledger_key;
  TablePhase phase = TablePhase::pending;
  std::int64_t rows = 0, bytes = 0, bytes_total = 0;  // copied; bytes_total is the estimate
  std::string note;                                   // why skipped, or what a person should know
  std::string source_shape;       // catalog::Shape as JSON, of the source's table as the target has it; "" not known
  std::int64_t missing_rows = 0;  // counted by apply, in the transaction of the change; store_table() leaves it alone
  std::uint32_t target_oid = 0;   // the target's table, whatever it is called by now; 0 not recorded yet
  bool detached = false;          // out of the stream for a resync (pgbaton/resync/resync.hpp), which alone writes it
};

// A range of blocks of a table that is copied in parts (copy/parts.hpp).
struct CopyPart {
  int number = 0;  // 0 …
  std::int64_t first_block = 0;
  std::optional<std::int64_t> end_block;
  std::int64_t rows = 0, bytes = 0;
};

// What parts of a table that is not copied as a whole have committed.
struct CopiedParts {
  std::int64_t done = 0, total = 0;  // parts
  std::int64_t rows = 0, bytes = 0;
};

// One row per applier; progress is written by the data plane inside the apply transaction (apply/applier.hpp).
struct Progress {
  Lsn applied_lsn;  // every source transaction with commit LSN < applied_lsn is durable on the target
  std::int64_t transactions = 0, changes = 0;
  double commit_age_seconds = -1;  // now() on the target minus the source's commit time of the last one; -1: none yet
  double updated_age_seconds = -1;
  Lsn received_lsn, confirmed_lsn;  // as the writer last reported them (report_positions)
  Lsn slot_restart_lsn;             // the largest one reported on this timeline; 0 none yet
  std::int64_t tables_version = 0;  // of the table states that the stream has to obey; read it before them
  std::int64_t tables_obeyed = 0;   // as the present writer has read it
};

struct Event {
  std::int64_t id = 0;
  std::string at, kind, detail;  // at: ISO 8601 in UTC; detail: JSON or ""
  std::string message;           // of the detail, if it has one
};
// An event may be committed after a later one (numbers are given before the commit): who carries them on asks again
// from before an event's number until `oldest_running` has reached what `next_transaction` was when he saw the event.
struct Events {
  std::vector<Event> rows;  // in order of their numbers
  std::int64_t oldest_running = 0, next_transaction = 0;
};

// open → taken (by the writer) → done. A flat JSON object of texts is Fields here; null fields are left out.
using Fields = std::map<std::string, std::string>;
std::string to_json(const Fields& fields);

struct Report {
  Fields values;
  double age_seconds = -1;  // -1: there is none
};

struct Request {
  std::int64_t id = 0;
  std::string kind;  // "stop"; "cut" (stream/shared_cut.hpp)
  Fields payload;
  std::string state;  // as load_request() saw it
  Fields result;      // may be there before it is done
};

// Somebody may still deliver changes of this table that are older than a delete (resync, repair, replay).
struct Hold {
  std::int64_t id = 0;
  QualifiedName table;
  Lsn from_lsn;   // 0 until the writer has taken it up
  Lsn until_lsn;  // 0: until it is released
  std::string reason;
  double age_seconds = 0;
};

struct Expiry {
  Lsn expired_lsn;           // below it everything may be gone
  std::int64_t removed = 0;  // rows
  bool more = false;         // a table had more than rows_at_once
};

struct GuardSizes {
  Lsn expired_lsn;
  std::int64_t tombstones = 0, tombstone_bytes = 0;  // rows by the planner's estimate
  struct Ledger {
    QualifiedName table;
    std::int64_t entries = 0, bytes = 0;  // entries by the planner's estimate
  };
  std::vector<Ledger> ledgers;
};

// NOTIFY channel on which insert_request() announces; the payload is the replica's name.
inline constexpr std::string_view kRequestChannel = "pgbaton_request";

// Event that holds what one transaction of several has restored of the definitions (schema_part_statement).
inline constexpr std::string_view kSchemaPart = "schema part";

class Store {
 public:
  explicit Store(pg::Control& connection) : connection_(connection) {}

  // Creates or migrates the schema in one transaction; a schema newer than this tool: Error(usage). Safe when two
  // processes do it at once. A schema of this name that is not ours: Error(preflight).
  void install();
  // False when there is no schema; a newer one: Error(usage).
  bool installed();

  // Nothing (rather than an error) when the schema is not installed.
  std::optional<Replica> load_replica(const std::string& name);
  std::vector<std::string> replica_names();
  // In phase creating or whatever `replica` says; a name that exists: Error(usage).
  void insert_replica(const Replica& replica, const std::vector<TableState>& tables);
  // Each of these is conditional on the epoch; zero rows touched: Error(held_elsewhere), "fenced".
  // Never backwards. Entering indexing, streaming and ready is a step of readiness: its time and an event (copied,
  // indexed, ready) are in the same transaction. `applied_lsn` is for ready.
  void store_phase(const Replica& replica, Phase phase, Lsn applied_lsn = {});
  // What `ready` takes: the goal that is in force, the one given or one that was stored earlier.
  Lsn store_ready_goal(const Replica& replica, Lsn goal_lsn, std::uint64_t lag_limit_bytes);
  void store_consistent_point(const Replica& replica, Lsn consistent_point);  // also makes the progress row
  void store_replica_role(const Replica& replica, bool used);
  // For the transaction that restores definitions; each must touch one row. A part: entries by their fingerprints.
  static std::string schema_part_statement(const Replica& replica, const std::vector<std::string>& fingerprints);
  static std::string schema_restored_statement(const Replica& replica);
  // What transactions with schema_part_statement have committed while the schema as a whole is not there.
  std::set<std::string> load_schema_parts(const std::string& name);
  void store_publication_state(const Replica& replica, const std::string& json);
  // nullopt: it was disproved. Of two breaks the later one is kept, with the larger positions.
  void store_history_break(const Replica& replica, const std::optional<HistoryBreak>& found);
  // The source went on as another timeline of the same history; what was seen of the slot on the old one is forgotten.
  void store_source_timeline(const Replica& replica, std::uint32_t timeline);
  // A new build under the same name: generation and everything but name, epoch and writer from `replica`; its tables
  // replace the old ones, progress starts anew. For a replica that never got beyond phase creating, and for --restart.
  void replace_generation(const Replica& replica, const std::vector<TableState>& tables);
  void store_last_error(const std::string& name, const std::string& json);  // "" clears; never throws for a lost epoch
  void delete_replica(const std::string& name);                             // the replica and everything of it
  void drop_schema_if_unused();                                             // the last replica takes the schema with it

  std::vector<TableState> load_tables(const Replica& replica);
  std::map<QualifiedName, CopiedParts> load_copied_parts(const std::string& name);
  void store_table(const Replica& replica, const TableState& table);  // all mutable fields
  // The same with an event: the table is copied, indexed and guarded.
  void finish_table(const Replica& replica, const TableState& table);
  // Only source_shape and note. Nothing happens when the row is gone or the term is over: advice for a later run.
  void store_observed(const Replica& replica, const TableState& table);
  // Records which tables of the target are meant, by the names of the states, where that is not known yet.
  void store_target_oids(const Replica& replica);
  // Tables that have other names by now, on both sides: their states, tombstones and doubts follow. A running writer
  // reads its tables again.
  struct Rename {
    QualifiedName from, to;
  };
  void rename_tables(const Replica& replica, const std::vector<Rename>& renames);
  // Tables that came later; those that are recorded already stay as they are.
  void add_tables(const Replica& replica, const std::vector<TableState>& tables);
  // The SQL of that update, for a data-plane transaction that also holds the rows; must touch one row.
  static std::string copied_statement(const Replica& replica, const TableState& table);
  // Of a table's parts, for transactions of the same kind. Recording touches one row: none when the writer was fenced,
  // or when an earlier attempt whose outcome was not known has recorded the part.
  static std::string plan_parts_statement(const Replica& replica, const QualifiedName& table,
                                          const std::vector<CopyPart>& parts);
  static std::string record_part_statement(const Replica& replica, const QualifiedName& table, const CopyPart& part);
  static std::string forget_parts_statement(const Replica& replica, const QualifiedName& table);
  // One row "t" when the part, or the table as a whole, is committed.
  static std::string part_recorded_query(const Replica& replica, const QualifiedName& table, int part);

  Progress load_progress(const Replica& replica);
  // slot_restart_lsn only grows; it must be on the source's disk. `report` is for people. Returns the tables_version in
  // force.
  std::int64_t report_positions(const Replica& replica, Lsn received_lsn, Lsn confirmed_lsn, Lsn slot_restart_lsn = {},
                                const Fields& report = {});
  // The same without positions, of a copy. Nothing happens when there is no progress row yet or the term is over.
  void report_copy(const std::string& name, const Fields& report);
  Report load_report(const Replica& replica);
  // The writer has read the table states of this version, and no older transaction of its is open any more.
  void obey_tables(const Replica& replica, std::int64_t tables_version);

  std::int64_t insert_request(const std::string& name, std::string_view kind, std::string_view payload);
  std::vector<Request> take_requests(const Replica& replica);       // open ones, oldest first, marked taken
  void complete_request(std::int64_t id, std::string_view result);  // result: JSON or ""
  // A first result of a request that goes on. False when its requester has removed it.
  bool report_request(std::int64_t id, const Fields& result);
  void delete_request(std::int64_t id);  // by its requester; no error when it is gone
  // open → taken → done; nullopt when unknown.
  std::optional<std::string> request_state(std::int64_t id);
  std::optional<Request> load_request(std::int64_t id);

  // Retention of tombstones and ledger entries: what these do is told in pgbaton/state/retention.hpp.
  std::int64_t add_hold(const std::string& name, const QualifiedName& table, std::string_view reason);
  void limit_hold(std::int64_t id, Lsn until_lsn);
  void release_hold(std::int64_t id);
  void activate_hold(const Replica& replica, std::int64_t id, Lsn from_lsn);
  std::vector<Hold> load_holds(const std::string& name);
  Expiry expire(const Replica& replica, const std::vector<TableState>& tables, Lsn below_lsn, int rows_at_once);
  GuardSizes load_guard_sizes(const std::string& name);

  void add_event(const std::string& name, std::string_view kind, std::string_view json);  // json may be ""
  // News beside an error, which must not be replaced by another: never throws, false when it could not be stored.
  bool tell_event(const std::string& name, std::string_view kind, const Fields& detail) noexcept;
  // For a data-plane transaction.
  static std::string event_statement(const std::string& name, std::string_view kind, const Fields& detail);
  // Those with a number above `after_id`. Empty without a schema.
  Events load_events(const std::string& name, std::int64_t after_id);
  // The newest of these kinds, newest first.
  std::vector<Event> load_last_events(const std::string& name, const std::vector<std::string>& kinds, int at_most);

  pg::Control& connection() { return connection_; }

 private:
  std::optional<Replica> read_row(const std::string& name);
  pg::Control& connection_;
};

}  // namespace pgbaton::state
