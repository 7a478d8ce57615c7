#include "index_pool.hpp"

#include <pgbaton/base/error.hpp>
#include <pgbaton/base/failpoint.hpp>
#include <pgbaton/base/log.hpp>
#include <pgbaton/copy/finalize.hpp>

#include <fmt/format.h>

namespace pgbaton::snapshot {

namespace {

using state::TablePhase;

// Small tables are taken together: with thousands of them a connection and a look at the catalog for each would cost
// more than their indexes.
constexpr std::int64_t kSmallBytes = 8 << 20;
constexpr std::size_t kGroup = 50;
// As long as copy waits for a server that went away.
constexpr Milliseconds kReconnectFor{60'000};

bool is_small(const copy::CopyJob& job) {
  return std::max(job.state.bytes, job.state.bytes_total) < kSmallBytes;
}

}  // namespace

IndexPool::IndexPool(const CloneOptions& options, const state::Replica& replica, copy::CopyProgress& progress,
                     std::stop_source stop)
    : options_(options), replica_(replica), progress_(progress), stop_(std::move(stop)) {
  for (int number = 1; number <= std::max(1, options.index_jobs); ++number)
    workers_.emplace_back([this, number] { run(number); });
}

IndexPool::~IndexPool() {
  {
    std::lock_guard lock(mutex_);
    closed_ = true;
    waiting_.clear();
  }
  if (!workers_.empty()) stop_.request_stop();  // the run failed: an index that takes hours must not hold up its end
  changed_.notify_all();
  for (auto& worker : workers_)
    if (worker.joinable()) worker.join();
}

void IndexPool::add(const copy::CopyJob& job, const std::optional<copy::SchemaArchive>& archive, bool guard_at_root) {
  {
    std::lock_guard lock(mutex_);
    if (error_) return;
    waiting_.push_back({job, archive, guard_at_root});
  }
  changed_.notify_one();
}

void IndexPool::finish() {
  {
    std::lock_guard lock(mutex_);
    closed_ = true;
  }
  changed_.notify_all();
  for (auto& worker : workers_) worker.join();
  workers_.clear();
  if (error_) std::rethrow_exception(error_);
}

bool IndexPool::failed() const {
  std::lock_guard lock(mutex_);
  return error_ != nullptr;
}

void IndexPool::run(int number) {
  try {
    Session session;
    auto role = fmt::format("index-{}", number);
    while (true) {
      auto group = take();
      if (group.empty()) return;
      process_with_retry(std::move(group), role, session);
    }
  } catch (...) {
    fail(std::current_exception());
  }
}

void IndexPool::fail(std::exception_ptr error) noexcept {
  {
    std::lock_guard lock(mutex_);
    if (!error_) error_ = error;
    waiting_.clear();
  }
  stop_.request_stop();
  changed_.notify_all();
}

// One big table, or small ones of the same archive; none when all is done.
std::vector<IndexPool::Work> IndexPool::take() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return closed_ || error_ || !waiting_.empty(); });
  std::vector<Work> group;
  while (!error_ && !waiting_.empty() && group.size() < kGroup) {
    if (!group.empty() && (!is_small(group.front().job) || !is_small(waiting_.front().job))) break;
    group.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
  }
  return group;
}

// Every step looks at the catalog first, so the whole group can be done again on a new connection.
void IndexPool::process_with_retry(std::vector<Work> group, const std::string& role, Session& session) {
  auto deadline = Deadline::after(kReconnectFor);
  auto shown = show(group);
  Backoff backoff;
  while (true) {
    try {
      if (!session.target) session.target = pg::open_control(options_.target, role);
      process(group, *session.target);
      return count(group);
    } catch (const Error& error) {
      if (error.action() != Action::retry || deadline.passed() || stop_.stop_requested()) throw;
      log::warning("{}: {}; trying again", role, error.describe());
      session.target.reset();
      std::this_thread::sleep_for(backoff.next());
    }
  }
}

std::shared_ptr<copy::TableInFlight> IndexPool::show(const std::vector<Work>& group) {
  auto name = group.front().job.table.name.quoted();
  if (group.size() > 1) name += fmt::format(" and {} small ones", group.size() - 1);
  return progress_.in_flight.add(name, true, 0);
}

void IndexPool::count(const std::vector<Work>& group) {
  for (const auto& work : group) progress_.size_indexed += work.job.state.bytes_total;
  progress_.tables_indexed += static_cast<std::int64_t>(group.size());
}

void IndexPool::process(std::vector<Work>& group, pg::Control& target) {
  state::Store store(target);
  std::vector<copy::CopyJob> to_index;
  for (const auto& work : group)
    if (work.archive && work.job.state.phase == TablePhase::copied) to_index.push_back(work.job);
  // A group's tables may stem from two rounds of the copy; the newer archive has what the older has.
  if (!to_index.empty()) copy::build_indexes(options_.target, *group.back().archive, to_index, stop_.get_token());
  PGBATON_FAILPOINT("indexes_built");
  for (auto& [job, archive, guard_at_root] : group) {
    if (stop_.stop_requested())
      throw Error(ErrorKind::failed, "interrupted").hint("Run the same command again: it goes on from here.");
    if (job.state.phase == TablePhase::copied) {
      job.state.phase = TablePhase::indexed;
      if (guard_at_root || !is_small(job)) store.store_table(replica_, job.state);  // a small one is `done` in a moment
      PGBATON_FAILPOINT("table_indexed");
    }
    if (!guard_at_root && !job.state.guarded) {
      set_guard(target, job);
      job.state.guarded = true;
      PGBATON_FAILPOINT("table_guarded");
    }
    copy::analyze(target, job.table.name);
    if (job.state.guarded) {
      job.state.phase = TablePhase::done;
      store.finish_table(replica_, job.state);
    }
  }
}

void IndexPool::set_guard(pg::Control& target, copy::CopyJob& job) {
  switch (job.state.guard) {
    case state::GuardKind::column:
      return copy::add_guard(target, job.table.name, job.state.boundary);
    case state::GuardKind::ledger:
      if (copy::add_ledger(target, replica_.name, job.table, job.state)) return;
      log::warning("{} has no unique key on the target: no ledger, only the progress row guards it",
                   job.table.name.quoted());
      job.state.guard = state::GuardKind::none;
      return;
    case state::GuardKind::none:
      return;
  }
}

}  // namespace pgbaton::snapshot
