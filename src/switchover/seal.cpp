#include "seal.hpp"

#include <fmt/format.h>
#include <pgbaton/base/error.hpp>
#include <pgbaton/base/failpoint.hpp>
#include <pgbaton/base/log.hpp>
#include <pgbaton/switchover_embedded_sql.hpp>

#include <algorithm>

namespace pgbaton::switchover {

namespace {

constexpr Milliseconds kFirstLockTimeout{50}, kBetweenTries{20};
// For sessions that were told to end.
constexpr Milliseconds kPatience{5'000};
// The target is in the transaction of the flip meanwhile.
constexpr Milliseconds kAnswerPatience{2'000};
// Of a machine that was lost in the flip: its locks must not outlive an --undo by much.
constexpr const char* kIdle = "10s";
// Younger ones are about to be refused.
constexpr double kShortSeconds = 0.3;

}  // namespace

Seal::Seal(pg::Connection& fence, const FenceRequest& request, const std::stop_token& stop)
    : connection_(fence), request_(request), tables_(fenced_with(fence, request.tables)) {
  if (request.all_transactions)
    for (const auto& open : load_open_transactions(fence)) before_.insert(open.xid);
  wait_and_hold(stop);
  PGBATON_FAILPOINT("switchover_sealed");
}

Seal::~Seal() {
  abandon(connection_);
}

void Seal::require() const {
  connection_.exec_until("select 1", Deadline::after(kAnswerPatience), {});
}

void Seal::wait_and_hold(const std::stop_token& stop) {
  const auto wait = Deadline::after(request_.transaction_wait);
  const auto end = Deadline::after(request_.transaction_wait + kPatience);
  const auto longest = longest_lock_timeout(connection_);
  bool told = false;
  for (auto timeout = std::min(kFirstLockTimeout, longest); !hold(timeout); timeout = std::min(timeout * 2, longest)) {
    if (stop.stop_requested()) throw Error(ErrorKind::failed, "interrupted").hint("Run the same command again.");
    if (request_.while_waiting) request_.while_waiting();
    if (!in_the_way_.empty() && !std::exchange(told, true))
      log::info("waiting up to {} for open write transactions: {}", format_duration(request_.transaction_wait),
                in_the_way_.front().text);
    if (end.passed()) give_up_on(connection_, in_the_way_, "write transactions do not end behind the fence");
    if (wait.passed()) end_or_give_up();
    sleep_for(kBetweenTries, stop);
  }
}

void Seal::end_or_give_up() {
  const bool prepared = std::ranges::find(in_the_way_, 0, &Holder::pid) != in_the_way_.end();
  if (prepared || (!request_.terminate && !in_the_way_.empty()))
    give_up_on(connection_, in_the_way_, "write transactions are still open behind the fence");
  if (request_.terminate) end_sessions(connection_, in_the_way_);
}

bool Seal::hold(Milliseconds lock_timeout) {
  in_the_way_.clear();
  try {
    connection_.exec(
        fmt::format("begin isolation level read committed read write; set local lock_timeout = {}; "
                    "set local idle_in_transaction_session_timeout = '{}'",
                    lock_timeout.count(), kIdle));
    connection_.exec(replaced(sql::fence_hold, {{":tables", array_of(tables_)}}));
    look_for_open();
    if (in_the_way_.empty()) {
      verify();
      return true;
    }
    connection_.exec("rollback");
  } catch (const Error& error) {
    abandon(connection_);
    if (error.sqlstate() != "55P03") throw;
    log::debug("seal: {}", error.message());
    cancel_vacuum(connection_);
    in_the_way_ = load_holders(connection_);
    const auto table = " " + table_without_lock(error.message()) + " ";
    std::erase_if(in_the_way_, [&](const auto& one) {
      return (one.pid != 0 && one.seconds < kShortSeconds) || (" " + one.tables + " ").find(table) == std::string::npos;
    });
  }
  return false;
}

void Seal::look_for_open() {
  if (before_.empty()) return;
  for (auto& open : load_open_transactions(connection_))
    if (open.lasting && before_.contains(open.xid)) in_the_way_.push_back(std::move(open.session));
}

void Seal::verify() try {
  connection_.exec(replaced(sql::fence_verify, {{":tables", array_of(tables_)}}));
} catch (const Error& error) {
  if (error.sqlstate() != "P0001") throw;
  throw Error(ErrorKind::failed, error.message())
      .side(connection_.side())
      .hint(
          "Somebody puts triggers out of action (ALTER TABLE … DISABLE TRIGGER, a load with --disable-triggers) or "
          "writes in spite of the fence: find out who, then run the same command again. Nothing is lost.");
}

}  // namespace pgbaton::switchover
