#include "cut_service.hpp"

#include <pgbaton/base/error.hpp>
#include <pgbaton/base/failpoint.hpp>
#include <pgbaton/base/log.hpp>
#include <pgbaton/base/name.hpp>

#include <fmt/format.h>

#include <charconv>

namespace pgbaton::stream {
namespace {

// The longest rest of one try (G7: lag stays in seconds whatever the source's transactions do).
constexpr Milliseconds kRestLimit{2000};
// To reach the cut once the slot is there; the appliers are only a few transactions behind it then.
constexpr Milliseconds kLeastTimeToReach{500};
// A requester imports at once, or never.
constexpr Milliseconds kKeepSnapshots{30'000};
constexpr Milliseconds kPoll{10};
constexpr std::size_t kBlockersNamed = 5;

int number(const state::Fields& fields, const std::string& name) {
  const auto found = fields.find(name);
  int value = 0;
  if (found != fields.end()) std::from_chars(found->second.data(), found->second.data() + found->second.size(), value);
  return value;
}

Milliseconds since(Clock::time_point then) {
  return std::chrono::duration_cast<Milliseconds>(Clock::now() - then);
}

bool session_lives(pg::Control& target, int pid) {
  return pg::control(Side::target, "looking for a requester", [&] {
    pqxx::nontransaction tx(target);
    return !tx.exec_params("select from pg_catalog.pg_stat_activity where pid = $1", pid).empty();
  });
}

Cut await(std::future<Cut> asked, Milliseconds patience, std::string_view what) {
  if (asked.wait_for(patience) == std::future_status::ready) return asked.get();
  throw Error(ErrorKind::timed_out, fmt::format("{} within {}", what, format_duration(patience)))
      .hint("A large transaction is being applied; it is tried again when it has ended.");
}

class Withdrawal {
 public:
  explicit Withdrawal(Gate& gate) : gate_(gate) {}
  ~Withdrawal() { gate_.withdraw(); }
  Withdrawal(const Withdrawal&) = delete;

 private:
  Gate& gate_;
};

}  // namespace

void CutService::serve(state::Store& store, const state::Request& request, const std::function<void()>& meanwhile,
                       const std::stop_token& stop) {
  const int pid = number(request.payload, "requester_pid");
  if (!session_lives(store.connection(), pid)) return store.delete_request(request.id);
  const Milliseconds hold_for(number(request.payload, "hold_ms"));
  try {
    Pair pair = take(request, hold_for > Milliseconds(0), stop);
    pair.requester_pid = pid;
    const bool there = store.report_request(request.id, {{"cut_lsn", to_string(pair.cut_lsn)},
                                                         {"source_snapshot", pair.source->snapshot_id()},
                                                         {"target_snapshot", pair.target_snapshot},
                                                         {"pause_ms", std::to_string(pair.pause.count())}});
    if (there && pair.cut) {
      hold(store, pair, hold_for, meanwhile, stop);
      store.delete_request(request.id);  // of a requester that died
    }
    store.add_event(
        replica_.name, "cut",
        state::to_json({{"cut_lsn", to_string(pair.cut_lsn)}, {"pause_ms", std::to_string(pair.pause.count())}}));
    if (there && hold_for == Milliseconds(0)) pairs_.push_back(std::move(pair));
  } catch (const Error& error) {
    if (error.side() == Side::target && error.action() == Action::retry) throw;
    log::info("cut not taken: {}", error.describe());
    const bool again = error.kind() == ErrorKind::timed_out || error.action() == Action::retry;
    store.report_request(request.id, {{"error", error.describe()},
                                      {"hint", error.hint()},
                                      {"kind", std::string(to_string(error.kind()))},
                                      {"again", again ? "true" : "false"}});
  }
}

// Creating the slot would wait for these, with the appliers at rest.
void CutService::refuse_while_blocked() {
  std::string text;
  std::size_t named = 0;
  for (const auto& blocker : source::load_blockers(source_)) {
    if (blocker.age_seconds * 1000 < static_cast<double>(kRestLimit.count())) continue;
    if (++named <= kBlockersNamed) text += (text.empty() ? "" : "; ") + source::describe(blocker);
  }
  if (text.empty()) return;
  throw Error(ErrorKind::timed_out, "a cut waits for write transactions that are open on the source: " + text)
      .side(Side::source)
      .hint("End these transactions, or give more time with --timeout.");
}

CutService::Pair CutService::take(const state::Request& request, bool hold, const std::stop_token& stop) {
  if (stop.stop_requested()) throw Error(ErrorKind::failed, "the stream is ending").action(Action::retry);
  refuse_while_blocked();
  Pair pair;
  pair.request_id = request.id;
  pair.target.emplace(pg::Connection::open(options_.target, "cut"));
  auto asked = gate_.rest();  // refused while somebody else's is under way, which is not ours to withdraw
  const Withdrawal withdrawal(gate_);
  std::optional<Cut> rest(await(std::move(asked), kRestLimit, "the appliers came to no border of transactions"));
  pair.rested_since = Clock::now();
  PGBATON_FAILPOINT("cut_rest");
  const source::SlotRequest slot{ReplicaNames(replica_.name).temporary_slot(static_cast<int>(request.id)), true,
                                 kRestLimit};
  pair.source = std::make_unique<source::SlotSnapshot>(source::SlotSnapshot::create(options_.source, slot, stop));
  pair.cut_lsn = pair.source->consistent_point();
  const auto left = std::max(kRestLimit - since(pair.rested_since), kLeastTimeToReach);
  pair.cut.emplace(await(gate_.ask(pair.cut_lsn), left, "the appliers did not reach the cut"));
  rest.reset();
  pair.target->exec("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
  pair.target_snapshot = pair.target->exec("SELECT pg_export_snapshot()").text(0, 0);
  if (!hold) pair.cut.reset();
  pair.pause = since(pair.rested_since);
  pair.keep_until = Deadline::after(kKeepSnapshots);
  log::info("cut at {}: the appliers rested {}", to_string(pair.cut_lsn), format_duration(pair.pause));
  return pair;
}

void CutService::hold(state::Store& store, Pair& pair, Milliseconds at_most, const std::function<void()>& meanwhile,
                      const std::stop_token& stop) {
  const auto until = Deadline::after(at_most);
  auto next_look = Clock::now() + Milliseconds(1000);
  while (!until.passed() && !stop.stop_requested() && wanted(store, pair)) {
    sleep_for(kPoll, stop);
    if (Clock::now() < next_look) continue;
    meanwhile();
    next_look = Clock::now() + Milliseconds(1000);
  }
  pair.cut.reset();
  pair.pause = since(pair.rested_since);
  log::info("cut at {} released: the appliers rested {}", to_string(pair.cut_lsn), format_duration(pair.pause));
}

bool CutService::wanted(state::Store& store, const Pair& pair) const {
  return store.request_state(pair.request_id) && session_lives(store.connection(), pair.requester_pid);
}

void CutService::tidy(state::Store& store) {
  std::erase_if(pairs_, [&](const Pair& pair) {
    if (wanted(store, pair) && !pair.keep_until.passed()) return false;
    store.delete_request(pair.request_id);
    return true;
  });
}

}  // namespace pgbaton::stream
