#include "pool.hpp"

#include <algorithm>

namespace pgbaton::copy {

Pool::Pool(const PoolContext& shared, std::vector<CopyJob> jobs)
    : context_(shared),
      rate_(shared.options.max_rate),
      queue_(std::make_move_iterator(jobs.begin()), std::make_move_iterator(jobs.end())) {
  // The largest first, so that no worker is left alone with it at the end.
  std::ranges::stable_sort(queue_, std::ranges::greater(), [](const CopyJob& job) { return job.table.bytes; });
}

std::optional<CopyJob> Pool::take() {
  const std::lock_guard lock(mutex_);
  if (halted() || queue_.empty()) return std::nullopt;
  CopyJob job = std::move(queue_.front());
  queue_.pop_front();
  return job;
}

void Pool::put_back(CopyJob job) {
  const std::lock_guard lock(mutex_);
  queue_.push_front(std::move(job));
}

void Pool::done(CopyJob job, TableOutcome outcome) {
  switch (outcome) {
    case TableOutcome::copied:
      context_.progress.size_done += job.state.bytes_total;
      ++context_.progress.tables_done;
      if (context_.on_copied) context_.on_copied(job);
      return;
    case TableOutcome::rewritten: {
      const std::lock_guard lock(mutex_);
      result_.rewritten.push_back(std::move(job));
      return;
    }
    case TableOutcome::dropped: {
      const std::lock_guard lock(mutex_);
      result_.dropped.push_back(std::move(job));
      return;
    }
  }
}

void Pool::fail(std::exception_ptr error) noexcept {
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
  std::ranges::move(queue_, std::back_inserter(result_.unfinished));
  return std::move(result_);
}

}  // namespace pgbaton::copy
