// resync: what an earlier run has left → copy into the shadow, the tables leave the stream → hand over → the shadow
// goes.
#include <fmt/format.h>
#include <pgbaton/base/error.hpp>
#include <pgbaton/base/failpoint.hpp>
#include <pgbaton/base/log.hpp>
#include <pgbaton/base/words.hpp>
#include <pgbaton/resync/resync.hpp>
#include <pgbaton/snapshot/clone.hpp>
#include <pgbaton/snapshot/deferred.hpp>
#include <pgbaton/state/doubt.hpp>
#include <pgbaton/state/switchover.hpp>
#include <pgbaton/state/writable.hpp>
#include <pgbaton/stream/own_writer.hpp>

#include <algorithm>
#include <optional>

#include "command.hpp"
#include "events.hpp"
#include "monitor.hpp"
#include "render.hpp"
#include "resync_shadow.hpp"
#include "verify_options.hpp"
#include "writer.hpp"

namespace pgbaton::app {

namespace {

struct Tables {
  std::vector<QualifiedName> names;
  bool adding = false;
};
constexpr Milliseconds kPoll{200};

class Resync {
 public:
  explicit Resync(const Context& context)
      : context_(context),
        target_(pg::open_control(context.target(), "resync")),
        source_(pg::open_control(context.source(), "resync")),
        store_(*target_),
        names_(resync::shadow_names(context.names)) {}

  void run() {
    replica_ = require_replica(context_, store_);
    require_copied(replica_);
    state::require_writable(*target_);
    if (state::switchover_runs(*target_, replica_.name))
      throw Error(ErrorKind::held_elsewhere, fmt::format("a switchover of replica {} is running", replica_.name))
          .side(Side::target)
          .hint("Run the same command again when it has ended.");
    require_unbroken(context_, store_, replica_);
    store_.install();  // a newer version of the state, if it is due
    auto wanted = find_wanted();
    lease_.emplace(
        state::Lease::acquire(shadow_clone_options(context_).target, names_.name, context_.options.take_over));
    try {
      run(wanted);
    } catch (const Error& error) {
      if (!stopped_at(error, wanted)) throw;
      log::warning("{}; {} leaves the stream at once, since it is copied again", error.describe(), error.table());
      writer_.reset();
      auto left = wanted.names;
      const auto out = detached_tables().names;
      std::erase_if(left, [&](const auto& table) { return std::ranges::find(out, table) != out.end(); });
      if (!left.empty()) resync::detach(store_, replica_, left, {}, context_.stop);
      run(wanted);
    }
    require_none_dropped();
  }

  const resync::HandedOver& result() const { return total_; }

 private:
  void run(Tables wanted) {
    writer_ = stream::OwnWriter::start(context_.stream_options(true), replica_.name,
                                       [this](const Error& error) { record_error(context_, error); });
    wait_until_ready();
    const auto begun = detached_tables();
    if (!begun.names.empty()) {
      log::info("going on with {} of an earlier resync",
                counted(static_cast<std::int64_t>(begun.names.size()), "table"));
      round(begun);
    } else if (const auto shadow = store_.load_replica(names_.name)) {
      // It did not get as far as to take tables out, or it has given them back.
      if (resync::adds_tables(*shadow) && shadow->phase >= state::Phase::streaming)
        create_rest(resync::recorded_tables(*shadow));
      remove();
    }
    std::erase_if(wanted.names,
                  [&](const auto& table) { return std::ranges::find(begun.names, table) != begun.names.end(); });
    if (!wanted.names.empty()) round(wanted);
  }

  // The stream that we drive ourselves cannot get past a row of a table that is to be copied again anyway.
  bool stopped_at(const Error& error, const Tables& wanted) {
    return error.kind() == ErrorKind::rejected && writer_ && !wanted.adding &&
           require_replica(context_, store_).phase == state::Phase::ready &&
           std::ranges::any_of(wanted.names, [&](const auto& table) { return table.quoted() == error.table(); });
  }

  void require_none_dropped() const {
    if (dropped_.empty()) return;
    throw Error(ErrorKind::rejected,
                fmt::format("dropped on the source before they were copied, and not in the stream any more: {}",
                            fmt::join(dropped_, ", ")))
        .side(Side::source)
        .hint(
            "The other tables are copied. One that was made again under such a name is no part of the replica: "
            "`pgbaton clone --restart` begins anew.");
  }

  Tables find_wanted() {
    const auto& given = context_.options;
    return {given.add ? resync::find_new_tables(*source_, store_, replica_, given.tables)
                      : resync::find_tables(*source_, store_, replica_, given.tables),
            given.add};
  }

  Tables detached_tables() {
    Tables tables;
    for (const auto& table : store_.load_tables(replica_)) {
      if (!table.detached) continue;
      tables.names.push_back(table.name);
      tables.adding = tables.adding || table.phase == state::TablePhase::pending;
    }
    std::ranges::sort(tables.names);
    return tables;
  }

  void while_waiting() const {
    if (writer_) writer_->check();
  }

  // From then on nothing but the stream writes the tables, and `ready` is never taken back.
  void wait_until_ready() {
    const auto patience = context_.options.give_up_after.value_or(kGiveUpAfter);
    const auto deadline = Deadline::after(patience);
    while (require_replica(context_, store_).phase != state::Phase::ready) {
      if (deadline.passed())
        throw Error(ErrorKind::timed_out,
                    fmt::format("replica {} did not become ready within {}", replica_.name, format_duration(patience)))
            .hint("`pgbaton status` shows what it waits for.");
      require_no_doubt();
      while_waiting();
      if (!sleep_for(kPoll, context_.stop))
        throw Error(ErrorKind::failed, "interrupted").hint("Run the same command again.");
    }
  }

  // It would not become ready: what is in doubt waits for a comparison, and that does not wait for ready.
  void require_no_doubt() {
    for (const auto& doubt : state::load_doubts(*target_, replica_.name))
      if (doubt.kind == state::DoubtKind::unproven)
        throw Error(ErrorKind::preflight, "the replica cannot become ready: the table " + doubt.reason)
            .side(Side::target)
            .table(doubt.table.quoted())
            .hint("Run `pgbaton verify --repair` first.");
  }

  void round(const Tables& tables) {
    try {
      copy_again(tables);
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::boundary_lost || !plan_holds_) remove();  // the next run begins with a new one
      warn_of_detached();
      throw;
    }
    remove();
  }

  void warn_of_detached() noexcept {
    try {
      const auto count = state::Store(*pg::open_control(context_.target(), "resync")).load_tables(replica_);
      const auto out = std::ranges::count_if(count, &state::TableState::detached);
      if (out > 0)
        log::warning("out of the stream, and not kept up to date until resync is run again: {}", counted(out, "table"));
    } catch (const std::exception& error) {
      log::debug("{}", error.what());
    }
  }

  snapshot::CloneOptions clone_options(const Tables& tables) {
    auto clone = shadow_clone_options(context_);
    if (!replica_.owns_publication) clone.publication = replica_.publication;
    for (const auto& table : tables.names) clone.filter.include_tables.push_back(table.quoted());
    if (tables.adding) {
      clone.schema = snapshot::SchemaMode::full;
      clone.schema_options.only_tables = tables.names;
      clone.guard = resync::recorded_guard(replica_);
      clone.replace_rows = false;
      clone.joins = true;
    } else {
      clone.filter.choices = resync::choices_of(*source_, replica_, tables.names);
    }
    clone.before_copy = [this, &tables] { before_copy(tables); };
    return clone;
  }

  void before_copy(const Tables& tables) {
    pg::revive(*target_, context_.target(), "resync");  // the slot may have waited for long
    pg::revive(*source_, context_.source(), "resync");
    const auto meanwhile = [this] { while_waiting(); };
    try {
      resync::require_same_tables(store_, replica_, names_.name);
    } catch (const Error& error) {
      plan_holds_ = error.kind() != ErrorKind::preflight;
      throw;
    }
    if (tables.adding) {
      resync::announce(*source_, store_, replica_, names_.name, meanwhile, context_.stop);
    } else {
      resync::detach(store_, replica_, tables.names, meanwhile, context_.stop);
      log::info("{} left the stream of replica {}",
                counted(static_cast<std::int64_t>(tables.names.size()), "table has", "tables have"), replica_.name);
    }
  }

  void create_rest(const std::vector<QualifiedName>& tables) {
    auto clone = shadow_clone_options(context_);
    clone.schema_options.only_tables = tables;
    log::info("creating foreign keys, triggers and rules of the new tables");
    snapshot::create_rest(clone, context_.stop);
  }

  void copy_again(const Tables& tables) {
    PGBATON_FAILPOINT("resync_chosen");
    const auto clone = clone_options(tables);
    store_.add_event(replica_.name, "resync_started", fmt::format(R"({{"tables": {}}})", tables.names.size()));
    {
      copy::CopyProgress progress;
      ProgressDisplay display(context_.progress_style(), copy_view(progress));
      const auto shown = show(context_, progress);
      snapshot::run_clone(clone, *lease_, progress, context_.stop);
    }
    resync::HandOver options;
    options.stream = context_.stream_options(true);
    options.shadow_stream = options.stream;
    options.shadow_stream.source = clone.source;
    options.shadow_stream.target = clone.target;
    options.replica = replica_.name;
    options.shadow = names_.name;
    options.while_waiting = [this] { while_waiting(); };
    const auto done = resync::hand_over(options, *lease_, context_.stop);
    pg::revive(*target_, context_.target(), "resync");
    store_.add_event(replica_.name, "resync_ended",
                     fmt::format(R"({{"tables": {}, "rows": {}, "boundary_lsn": "{}", "pause_ms": {}}})", done.tables,
                                 done.rows, to_string(done.boundary_lsn), done.pause.count()));
    log::info("{} with the replica's stream, from {} on", counted(done.tables, "table is", "tables are"),
              to_string(done.boundary_lsn));
    if (tables.adding) create_rest(tables.names);
    for (const auto& state : store_.load_tables(replica_))
      if (state.phase == state::TablePhase::skipped && state.note.starts_with("dropped") &&
          std::ranges::find(tables.names, state.name) != tables.names.end())
        dropped_.push_back(state.name.quoted());
    total_.boundary_lsn = done.boundary_lsn;
    total_.tables += done.tables;
    total_.rows += done.rows;
    total_.pause = std::max(total_.pause, done.pause);
  }

  void remove() {
    const auto clone = shadow_clone_options(context_);
    const auto report = snapshot::remove_replica(clone.source, clone.target, names_);
    if (report.left.empty()) return;
    throw Error(ErrorKind::failed, fmt::format("of the resync could not be removed: {}", fmt::join(report.left, "; ")))
        .hint("Run the same command again, or `pgbaton drop` later.");
  }

  const Context& context_;
  std::unique_ptr<pg::Control> target_, source_;
  state::Store store_;
  const ReplicaNames names_;
  state::Replica replica_;
  std::optional<state::Lease> lease_;  // of the shadow
  std::unique_ptr<stream::OwnWriter> writer_;
  bool plan_holds_ = true;  // false: tables of the shadow are other ones than the replica's
  resync::HandedOver total_;
  std::vector<std::string> dropped_;  // on the source, after the command began
};

// --where: a part of the tables is no table's copy, but a comparison whose differences are mended at a cut.
int mend_rows(const Context& context) {
  auto options = verify_options(context);
  {
    auto target = pg::open_control(context.target(), "resync");
    state::Store store(*target);
    const auto replica = require_replica(context, store);
    require_copied(replica);
    require_unbroken(context, store, replica);
    const auto tables =
        resync::find_tables(*pg::open_control(context.source(), "resync"), store, replica, context.options.tables);
    for (const auto& state : store.load_tables(replica))
      if (state.detached && std::ranges::find(tables, state.name) != tables.end())
        throw Error(ErrorKind::usage, "the table is being copied again as a whole")
            .table(state.name.quoted())
            .hint("Let `pgbaton resync` end, or run it again without --where when it was killed.");
    options.filter = {};
    for (const auto& table : tables) options.filter.include_tables.push_back(table.quoted());
  }
  options.repair = true;
  return report_verified(context, verify::run(options, context.stop));
}

void print_result(const Context& context, const resync::HandedOver& done) {
  const auto lsn = to_string(done.boundary_lsn);
  if (context.options.json) {
    print(small_json({{"name", context.names.name},
                      {"result", "resynced"},
                      {"tables", done.tables},
                      {"rows", done.rows},
                      {"boundary_lsn", lsn},
                      {"pause_ms", static_cast<std::int64_t>(done.pause.count())}}));
  } else if (!context.options.quiet) {
    print(fmt::format("{}: {}, {}; with the stream from {} on\n", context.options.add ? "added" : "copied again",
                      counted(done.tables, "table"), counted(done.rows, "row"), lsn));
  }
}

}  // namespace

snapshot::CloneOptions shadow_clone_options(const Context& context) {
  auto clone = context.clone_options(true);
  clone.names = resync::shadow_names(context.names);
  clone.source.replica_name = clone.target.replica_name = clone.names.name;
  clone.filter = {};
  clone.schema = snapshot::SchemaMode::none;
  clone.keyless = snapshot::Keyless::insert_only;
  clone.guard = state::GuardKind::none;  // the tables keep the guards that they have
  clone.publication.clear();
  clone.split_above = 0;  // parts are committed one by one: readers would see them
  clone.slot_failover = false;
  clone.on_failure = snapshot::OnFailure::keep;
  clone.replace_rows = true;
  return clone;
}

snapshot::RemovalReport remove_shadow(const Context& context) {
  const auto clone = shadow_clone_options(context);
  try {
    auto target = pg::open_control(clone.target, "resync");
    if (!state::Store(*target).load_replica(clone.names.name)) return {};
  } catch (const Error& error) {
    if (error.action() != Action::retry) throw;
    log::debug("{}", error.describe());  // a target that does not answer: the caller says so
    return {};
  }
  auto lease = state::Lease::acquire(clone.target, clone.names.name, context.options.take_over);
  return snapshot::remove_replica(clone.source, clone.target, clone.names);
}

int run_resync(Context& context) {
  context.source();  // a missing or malformed connection string is told before anything is connected
  if (context.options.tables.empty())
    throw Error(ErrorKind::usage, "resync needs the names of tables").hint("Write pgbaton resync public.orders.");
  snapshot::require_own_source(context.source(), context.target(), context.names.name);
  EventFile events(context);
  if (!context.options.where.empty()) return mend_rows(context);
  Resync resync(context);
  resync.run();
  print_result(context, resync.result());
  return 0;
}

}  // namespace pgbaton::app
