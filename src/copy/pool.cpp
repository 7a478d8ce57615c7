#include "pool.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace pgbaton::copy {
namespace {

// Without rounding anything away over all parts.
std::int64_t share(std::int64_t whole, std::size_t part, std::size_t parts) {
  const auto count = static_cast<std::int64_t>(parts), number = static_cast<std::int64_t>(part);
  return whole / count + (number < whole % count ? 1 : 0);
}

}  // namespace

std::string Work::name() const {
  const auto quoted = table->job.table.name.quoted();
  return is_part() ? fmt::format("{} part {} of {}", quoted, part + 1, table->ranges.size()) : quoted;
}

std::int64_t Work::bytes() const {
  return share(static_cast<std::int64_t>(table->job.table.bytes), part, table->ranges.size());
}

std::int64_t Work::bytes_total() const {
  return share(table->bytes_total, part, table->ranges.size());
}

Pool::Pool(const PoolContext& shared, std::vector<CopyJob> jobs, const SplitRule& rule)
    : context_(shared), rate_(shared.options.max_rate) {
  for (auto& job : jobs) {
    auto table = std::make_shared<TableWork>();
    table->job = std::move(job);
    table->bytes_total = table->job.state.bytes_total;
    table->ranges = plan_parts(table->job.table, rule);
    table->left = table->ranges.size();
    for (std::size_t part = 0; part < table->ranges.size(); ++part) queue_.push_back({table, part});
    tables_.push_back(std::move(table));
  }
  // The largest first, so that no worker is left alone with it at the end.
  std::ranges::stable_sort(queue_, std::ranges::greater(), &Work::bytes);
}

std::optional<Work> Pool::take() {
  const std::lock_guard lock(mutex_);
  while (!halted() && !queue_.empty()) {
    Work work = std::move(queue_.front());
    queue_.pop_front();
    if (!work.table->ended) return work;
  }
  return std::nullopt;
}

void Pool::put_back(Work work) {
  const std::lock_guard lock(mutex_);
  queue_.push_front(std::move(work));
}

void Pool::done(const Work& work, TableOutcome outcome) {
  const auto copied = [&] {
    context_.progress.size_done += work.bytes_total();
    work.table->size_done += work.bytes_total();
  };
  switch (outcome) {
    case TableOutcome::copied:
      copied();
      ++context_.progress.tables_done;
      work.table->ended = true;
      if (context_.on_copied) context_.on_copied(work.table->job);
      return;
    case TableOutcome::part_copied:
      copied();
      if (context_.options.on_part_copied) context_.options.on_part_copied();
      return;
    case TableOutcome::rewritten:
      give_up(work.table, result_.rewritten);
      return;
    case TableOutcome::dropped:
      give_up(work.table, result_.dropped);
      return;
  }
}

void Pool::give_up(const std::shared_ptr<TableWork>& table, std::vector<CopyJob>& list) {
  if (table->ended.exchange(true)) return;
  const std::scoped_lock lock(mutex_, table->mutex);
  list.push_back(table->job);
}

void Pool::fail(const std::exception_ptr& error) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (!error_) error_ = error;
  }
  halt();
}

CopyResult Pool::result(const std::stop_token& stop) {
  if (stop.stop_requested())
    throw Error(ErrorKind::failed, "interrupted while copying").hint("Run the same command again to go on.");
  if (error_) std::rethrow_exception(error_);
  for (const auto& table : tables_) {
    if (!table->ended) result_.unfinished.push_back(table->job);
    if (table->left > 0) context_.progress.size_done -= table->size_done;  // what is there of it will be taken again
  }
  return std::move(result_);
}

}  // namespace pgbaton::copy
