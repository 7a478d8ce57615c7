#include "session.hpp"

#include <fmt/format.h>

#include <pgbaton/base/error.hpp>
#include <pgbaton/base/failpoint.hpp>
#include <pgbaton/base/log.hpp>
#include <pgbaton/catalog/server.hpp>
#include <pgbaton/copy/deferrable.hpp>
#include <pgbaton/source/slot.hpp>
#include <pgbaton/state/doubt.hpp>

#include <algorithm>
#include <utility>

namespace pgbaton::stream {
namespace {

// A chunk is handed on at this size, or when nothing more is there to read: large enough that the queue's lock is not
// taken per transaction, small enough that the applier starts early.
constexpr std::size_t kChunkBytes = 256 * 1024;
// The shares of --memory: half waits in the queue, a quarter is the window being written; the rest is for the
// statements made from it and the receiver's own chunk.
constexpr std::uint64_t kQueueShare = 2, kWindowShare = 4;
// Of the failpoint tiny_windows: nearly every transaction is written in several parts.
constexpr std::size_t kTinyWindow = 2;
constexpr Milliseconds kHousekeeping{1000};
constexpr Milliseconds kRequestInterval{250};
// While nothing comes; the shorter one while a cut waits for a position, with the appliers at rest.
constexpr Milliseconds kIdleWait{100}, kUrgentWait{10};

// An open-ended stream may be idle for as long as the source is.
std::optional<Milliseconds> longest_standstill(const SessionContext& context) {
  if (std::holds_alternative<OpenEnded>(context.until)) return std::nullopt;
  return context.options.give_up_after;
}

}  // namespace

Session::Session(SessionContext context)
    : context_(context),
      queue_(context.options.memory_bytes / kQueueShare),
      progress_clock_(longest_standstill(context), Clock::now()) {
  const auto& options = context_.options;
  state::Store store(context_.lease.connection());
  if (const auto now = store.load_replica(context_.replica.name))  // resync --add publishes more
  {
    context_.replica.publication_state = now->publication_state;
    context_.replica.history_break = now->history_break;
  }
  tables_version_ = store.load_progress(context_.replica).tables_version;  // before the tables
  store.store_target_oids(context_.replica);
  tables_ = store.load_tables(context_.replica);
  if (const auto* until = std::get_if<UntilApplied>(&context_.until)) until_applied_ = until->lsn;
  if (const auto* until = std::get_if<UntilEndLsn>(&context_.until)) until_end_ = until->lsn;

  source_ = pg::open_control(options.source, "status");
  follow_history(store);
  // What a run is to reach was read after the copy, too, and earlier. A later run does not judge by the goal of an
  // earlier one alone: constraints that were violated then may hold once its own backlog is applied.
  if (context_.replica.phase == state::Phase::streaming) {
    const Lsn seen_lsn = until_applied_ ? until_applied_ : catalog::current_flush_lsn(*source_);
    ready_goal_ = std::max(seen_lsn, store.store_ready_goal(context_.replica, seen_lsn, options.ready_lag_bytes));
  }
  relations_connection_ = pg::open_control(options.target, "relations");
  DriftPolicy drift;
  drift.add_columns = options.add_columns;
  drift.shared_publication = !context_.replica.owns_publication && context_.replica.name.ends_with("__resync");
  drift.source = [this]() -> pg::Control& {
    if (!drift_connection_) drift_connection_ = pg::open_control(context_.options.source, "drift");
    return *drift_connection_;
  };
  drift.replica = context_.replica.name;
  drift.generation = context_.replica.generation;
  relations_ = std::make_unique<RelationMap>(*relations_connection_, tables_, std::move(drift));
  assembler_ = std::make_unique<Assembler>(*relations_, start_lsn_, until_end_);

  retention_ = std::make_unique<Retention>(options.retention, context_.replica, tables_);
  retention_->load(store, [this] { return catalog::current_flush_lsn(*source_); });

  apply::ApplierOptions apply_options;
  apply_options.tombstones = retention_->rule();
  apply_options.replica = context_.replica.name;
  apply_options.generation = context_.replica.generation;
  apply_options.epoch = context_.replica.epoch;
  apply_options.tables_version = tables_version_;
  apply_options.replica_role = context_.replica.replica_role;
  apply_options.strategy = options.change_by_change ? apply::Strategy::change_by_change : apply::Strategy::batch;
  row_fetch_ = std::make_unique<RowFetch>(options.source, context_.replica);
  apply_options.repair_missing = options.repair_missing;
  apply_options.row_source = row_fetch_.get();
  applier_ = std::make_unique<apply::Applier>(pg::Connection::open(options.target, state::kApplyRole), apply_options);
  open_reader();

  ApplyLoopOptions loop_options;
  loop_options.window_changes = PGBATON_FAILPOINT_SET("tiny_windows") ? kTinyWindow : options.window_changes;
  loop_options.window_bytes = options.memory_bytes / kWindowShare;
  loop_options.window_age = options.window_age;
  loop_options.applied_lsn = start_lsn_;
  loop_options.until_lsn = until_applied_;
  loop_ = std::make_unique<ApplyLoop>(queue_, *applier_, *reader_, context_.gate, context_.positions, loop_options);
  cuts_ = std::make_unique<CutService>(options, context_.replica, context_.gate, *source_);
  context_.positions.applied = start_lsn_.value;
  store.obey_tables(context_.replica, tables_version_);
}

Session::~Session() = default;

// Before anything is read. A source that is another timeline of the same history is recorded as such at once: what is
// applied from now on may lie beyond the point where the two parted.
void Session::follow_history(state::Store& store) {
  auto& replica = context_.replica;
  history_ = source::expected_history(replica, store.load_progress(replica), tables_);
  start_lsn_ = history_.applied_lsn;
  const auto timeline = source::require_history(store, *source_, context_.options.source, replica, history_);
  if (timeline != replica.source_timeline) {
    log::warning("the source went on as timeline {} (it was {}), and has everything that the target has", timeline,
                 replica.source_timeline);
    store.store_source_timeline(replica, timeline);
    store.add_event(replica.name, "source_timeline", fmt::format(R"({{"timeline": {}}})", timeline));
    history_.timeline = replica.source_timeline = timeline;
    history_.slot_restart_lsn = Lsn{};
  }
  if (!replica.publication_state.empty()) return;
  // Begun by a version that did not keep it: from now on.
  replica.publication_state = source::load_publication_state(*source_, replica.publications());
  store.store_publication_state(replica, replica.publication_state);
  history_.publication_state = replica.publication_state;
}

void Session::open_reader() {
  const auto& replica = context_.replica;
  source::ReaderOptions options;
  options.mode = context_.options.reader;
  options.slot = replica.slot;
  options.publications = replica.publications();
  options.start_lsn = start_lsn_;
  options.source_flush_lsn = catalog::current_flush_lsn(*source_);
  options.system_identifier = replica.source_system_id;
  options.timeline = replica.source_timeline;
  options.memory = &context_.reader_memory;
  // Between the first look and now somebody may have used the slot; from here on nobody can, or it shows in the next
  // look. The housekeeper has the status connection while the session runs.
  options.once_held = [this](Lsn durable_end_lsn) {
    auto expected = history_;
    expected.applied_lsn = std::max(expected.applied_lsn, durable_end_lsn);
    if (!loop_) return source::require_slot(*source_, expected);
    source::require_slot(*pg::open_control(context_.options.source, "history"), expected);
  };
  reader_ = source::open_reader(context_.options.source, std::move(options));
}

// Who takes a table out of a publication while we stream gets no error; its changes are just not there any more.
void Session::watch_publications() {
  auto digest = source::publication_digest(*source_, context_.replica.publications());
  if (digest == publication_digest_) return;
  source::require_publications(*source_, history_);
  publication_digest_ = std::move(digest);
}

Ended Session::run(const std::stop_token& stop) {
  PGBATON_FAILPOINT("stream_connected");
  log::info("streaming from slot {} at {}", quote_identifier(context_.replica.slot), to_string(start_lsn_));
  // Declared before the threads, so that it outlives them.
  std::exception_ptr failure;
  {
    std::jthread applier([this] {
      try {
        loop_->run();
      } catch (...) {
        queue_.close(std::current_exception());
      }
    });
    std::jthread housekeeper([this](const std::stop_token& done) { keep_house(done); });
    try {
      receive(stop);
      queue_.close();
    } catch (const Error& error) {
      failure = std::current_exception();
      if (error.kind() == ErrorKind::rejected)
        finish_before(stop);
      else
        queue_.close(failure);
    } catch (...) {
      failure = std::current_exception();
      queue_.close(failure);
    }
    applier.join();
    housekeeper.request_stop();
  }
  if (!failure) failure = queue_.error();
  state::Store store(context_.lease.connection());
  if (failure) {
    tell_why_it_stops(store, failure);
    std::rethrow_exception(failure);
  }
  housekeeping_round(store);
  std::stop_source ended;
  ended.request_stop();
  serve_requests(store, ended.get_token());  // those that came at the last moment
  for (const auto id : stop_requests_) store.complete_request(id, R"({"stopped": true})");
  const Lsn applied_lsn{context_.positions.applied};
  const bool reached = until_applied_ ? applied_lsn >= until_applied_ : until_end_ && assembler_->finished();
  log::info("stream ended at {}", to_string(applied_lsn));
  return reached ? Ended::reached : Ended::stopped;
}

// Whether somebody waits for a position that the source may not report by itself soon.
bool Session::wants_position() const {
  const Lsn received_lsn{context_.positions.received};
  return (until_applied_ && received_lsn < until_applied_) || (until_end_ && received_lsn < until_end_) ||
         context_.gate.wanted().has_value();
}

// `moved`: messages have come since the last look.
void Session::require_progress(bool moved) {
  const bool busy = moved || loop_->busy() || !queue_.empty() || context_.gate.wanted().has_value();
  const Lsn received_lsn{context_.positions.received}, applied_lsn{context_.positions.applied};
  if (!progress_clock_.strikes(received_lsn, applied_lsn, busy, Clock::now())) return;
  const Lsn wanted_lsn = until_applied_ ? until_applied_ : until_end_;
  throw Error(ErrorKind::timed_out, "nothing has moved for " + format_duration(*context_.options.give_up_after) +
                                        " while waiting for " + to_string(wanted_lsn) + ": received " +
                                        to_string(received_lsn) + ", applied " + to_string(applied_lsn) +
                                        ", the source has written up to " +
                                        to_string(Lsn{context_.positions.source_flush}))
      .side(Side::source)
      .lsn(wanted_lsn)
      .hint(
          "Nothing is lost: when the source has not written as far yet, wait until it has, or give a lower position.");
}

void Session::receive(const std::stop_token& stop) {
  bool busy = false, moved = false;
  auto last_position_request = Clock::now() - kHousekeeping;
  while (!stop.stop_requested() && !stop_requested_ && !loop_->done()) {
    if (queue_.closed()) return;
    const auto patience = context_.gate.wanted() ? kUrgentWait : kIdleWait;
    const auto event = reader_->next(Deadline::after(busy ? Milliseconds(0) : patience));
    if (const auto* frame = std::get_if<source::Frame>(&event)) {
      busy = moved = true;
      assembler_->on_frame(*frame);
      if (assembler_->chunk().bytes() >= kChunkBytes && !push(stop)) return;
    } else if (const auto* position = std::get_if<source::Position>(&event)) {
      assembler_->on_position(position->lsn);
      busy = true;  // a source that is busy with other tables sends one after the other: hand it on before the next
    } else if (std::holds_alternative<source::Stopped>(event)) {
      return;
    } else {
      busy = false;
      const bool working = std::get<source::Idle>(event).working;
      require_progress(std::exchange(moved, false) || working);
      if (!assembler_->chunk().empty() && !push(stop)) return;
      // Also unasked once a second: the lag of a quiet table must go to 0 while other databases write WAL.
      if (Clock::now() - last_position_request >= (wants_position() ? patience : kHousekeeping)) {
        reader_->request_position();
        last_position_request = Clock::now();
      }
    }
    context_.positions.received = assembler_->received_lsn().value;
    if (assembler_->finished()) {
      push(stop);
      return;
    }
  }
}

// A row does not fit. What was committed before its transaction is applied first: whoever mends the table must find the
// rows of then, and later ones must not get the defaults of a column that they never had.
void Session::finish_before(const std::stop_token& stop) {
  push(stop);
  queue_.close();
}

// False when the queue was closed or a stop came; what is in the chunk then is not lost: it is not confirmed either.
bool Session::push(const std::stop_token& stop) {
  Chunk chunk = assembler_->take();
  const std::size_t bytes = chunk.bytes();
  while (!queue_.push_for(chunk, bytes, kIdleWait)) {
    if (queue_.closed() || stop.stop_requested() || stop_requested_ || loop_->done()) return false;
    reader_->keep_alive();
  }
  return true;
}

void Session::keep_house(const std::stop_token& done) {
  try {
    state::Store store(context_.lease.connection());
    auto next_round = Clock::now();
    while (!done.stop_requested()) {
      if (Clock::now() >= next_round) {
        housekeeping_round(store);
        next_round = Clock::now() + kHousekeeping;
      }
      serve_requests(store, done);
      sleep_for(kRequestInterval, done);
    }
  } catch (...) {
    queue_.close(std::current_exception());
  }
}

void Session::housekeeping_round(state::Store& store) {
  context_.lease.check();
  const Lsn flush_lsn = catalog::current_flush_lsn(*source_);
  context_.positions.source_flush = flush_lsn.value;
  if (context_.positions.applied >= flush_lsn.value) context_.positions.level_at = Clock::now();
  reader_->source_has_written(flush_lsn);
  const auto slot = source::load_slot(*source_, context_.replica.slot);
  context_.positions.queued_bytes = queue_.bytes();
  context_.positions.slot_held = slot ? slot->held_bytes : -1;
  // What was seen a round ago is on the source's disk by now.
  const auto tables_version =
      store.report_positions(context_.replica, Lsn{context_.positions.received}, reader_->confirmed_lsn(),
                             seen_restart_lsn_, report_.update(read_status(context_.positions), Clock::now()));
  if (tables_version != tables_version_)
    throw Error(ErrorKind::failed, "which tables are to be applied from where has changed (resync)")
        .side(Side::target)
        .sqlstate(apply::kTablesChanged)
        .action(Action::retry);
  if (slot) seen_restart_lsn_ = slot->restart_lsn;
  watch_publications();
  const Lsn applied_lsn{context_.positions.applied};
  retention_->round(
      store, [this] { return catalog::current_flush_lsn(*source_); },
      slot ? std::min(applied_lsn, slot->confirmed_flush_lsn) : Lsn{});
  mark_ready_if_due(store);
}

void Session::serve_requests(state::Store& store, const std::stop_token& done) {
  for (const auto& request : store.take_requests(context_.replica)) {
    if (request.kind == "stop") {
      stop_requests_.push_back(request.id);
      stop_requested_ = true;
    } else if (request.kind == "cut") {
      cuts_->serve(
          store, request, [&] { housekeeping_round(store); }, done);
    } else {
      store.complete_request(request.id, R"({"error": "this version does not know the request"})");
    }
  }
  cuts_->tidy(store);
}

// On a connection of its own: a scan of a large table must not take the lease's.
void Session::require_constraints() const {
  if (!context_.replica.replica_role) return;
  copy::require_deferrable_constraints(*pg::open_control(context_.options.target, "constraints"),
                                       context_.replica.name);
}

// What only a comparison settles. What differs in the catalogs is for a person, and for finish.
bool Session::in_doubt(state::Store& store) {
  const auto doubts = state::load_doubts(store.connection(), context_.replica.name);
  const auto found =
      std::ranges::find_if(doubts, [](const auto& doubt) { return doubt.kind == state::DoubtKind::unproven; });
  if (found == doubts.end()) return false;
  if (!std::exchange(told_of_doubt_, true))
    log::warning("not ready: {} {}; {}", found->table.quoted(), found->reason, found->remedy);
  return true;
}

// Ready, the third and last step of readiness: the stream has durably reached the position that was observed after the
// copy was complete and valid, and is not far behind. Sticky for the generation.
void Session::mark_ready_if_due(state::Store& store) {
  auto& replica = context_.replica;
  const Lsn applied_lsn{context_.positions.applied}, source_flush_lsn{context_.positions.source_flush};
  if (replica.phase != state::Phase::streaming || applied_lsn < ready_goal_) return;
  if (std::ranges::any_of(tables_, [&](const auto& table) { return table.detached || applied_lsn < table.boundary; }))
    return;
  const auto behind = source_flush_lsn > applied_lsn ? source_flush_lsn.value - applied_lsn.value : 0;
  if (behind >= context_.options.ready_lag_bytes || in_doubt(store)) return;
  require_constraints();
  store.store_phase(replica, state::Phase::ready, applied_lsn);
  replica.phase = state::Phase::ready;
  PGBATON_FAILPOINT("ready_recorded");
  log::info("ready: the target has everything up to {}", to_string(applied_lsn));
}

// What a person must mend is an event of its own kind; that the run failed is for the command to tell.
void Session::tell_why_it_stops(state::Store& store, const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const Error& error) {
    if (error.sqlstate() != apply::kMissingRow) return;
    store.tell_event(
        context_.replica.name, "missing_row",
        {{"table", error.table()}, {"key", error.key()}, {"commit_lsn", to_string(error.lsn())}, {"done", "stopped"}});
  } catch (...) {  // nothing that a row says
  }
}

}  // namespace pgbaton::stream
