#include "apply_loop.hpp"

#include <pgbaton/base/error.hpp>
#include <pgbaton/base/failpoint.hpp>

#include <algorithm>
#include <chrono>
#include <span>

#include "stream_report.hpp"

namespace pgbaton::stream {
namespace {

// How often the progress row is written for a stream that brings no rows: often enough for `wait` and lag displays,
// rarely enough not to be a load of its own.
constexpr Milliseconds kPositionInterval{500};
// Wakes that often to look for cuts and due positions.
constexpr Milliseconds kPollInterval{50};

}  // namespace

ApplyLoop::ApplyLoop(BoundedQueue<Chunk>& queue, apply::Applier& applier, source::ChangeReader& reader, Gate& gate,
                     Positions& positions, ApplyLoopOptions options)
    : queue_(queue),
      applier_(applier),
      reader_(reader),
      gate_(gate),
      positions_(positions),
      options_(options),
      position_(options.applied_lsn),
      applied_lsn_(options.applied_lsn) {}

// The housekeeper writes the progress row, too, and the session waits for it at its end: whatever ends this thread must
// not leave a transaction that has the row locked.
void ApplyLoop::run() try {
  for (;;) {
    if (auto chunk = queue_.pop_for(borders_.empty() ? kPollInterval : Milliseconds(0))) {
      absorb(std::move(*chunk));
    } else if (queue_.closed()) {
      break;
    }
    busy_ = !pending_.empty() || !borders_.empty();
    if (serve_cut()) continue;
    if (window_due(queue_.empty())) write_window();
    commit_position(options_.until_lsn && position_ >= options_.until_lsn);
    if (options_.until_lsn && applied_lsn_ >= options_.until_lsn && written_of_open_ == 0) break;
  }
  finish();
  done_ = true;
} catch (...) {
  applier_.abandon();
  throw;
}

void ApplyLoop::absorb(Chunk chunk) {
  if (pending_.empty() && borders_.empty()) oldest_pending_ = Clock::now();
  const std::size_t first = pending_.size();
  pending_.insert(pending_.end(), chunk.changes.begin(), chunk.changes.end());
  position_ = std::max(position_, chunk.position);
  const std::size_t bytes = chunk.bytes();
  const std::size_t count = chunk.changes.size();
  const auto borders = std::move(chunk.borders);
  if (count > 0) {
    held_bytes_ += bytes;
    positions_.window_bytes = held_bytes_;
    held_.push_back({count, bytes, std::move(chunk)});
  }
  for (const auto& border : borders) {
    borders_.push_back({first + border.change_end, border});
    if (border.abandoned) abandon_last_transaction();
  }
}

// Its border is the last one; nothing follows it (the assembler has finished).
void ApplyLoop::abandon_last_transaction() {
  borders_.pop_back();
  const std::size_t keep = borders_.empty() ? 0 : borders_.back().change_end;
  pending_.resize(keep);
  if (written_of_open_ > 0) applier_.rollback();
  written_of_open_ = 0;
}

bool ApplyLoop::window_full() const {
  return pending_.size() >= options_.window_changes || held_bytes_ >= options_.window_bytes;
}

bool ApplyLoop::window_due(bool queue_is_empty) const {
  if (window_full()) return true;
  if (borders_.empty()) return false;
  return queue_is_empty || Clock::now() - oldest_pending_ >= options_.window_age;
}

std::size_t ApplyLoop::borders_below(Lsn limit) const {
  const auto beyond = std::find_if(borders_.begin(), borders_.end(),
                                   [&](const PendingBorder& b) { return b.border.commit_lsn >= limit; });
  return static_cast<std::size_t>(beyond - borders_.begin());
}

// Writes every whole transaction that is pending (below the wanted cut, if there is one) and commits; or, when one
// transaction alone fills the window, its part so far.
void ApplyLoop::write_window() {
  auto cut_lsn = gate_.wanted();
  if (cut_lsn && !*cut_lsn) cut_lsn.reset();  // to rest at the next border limits nothing
  const std::size_t whole = cut_lsn ? borders_below(*cut_lsn) : borders_.size();
  if (whole == 0) {
    const bool beyond_cut = cut_lsn && !pending_.empty() && pending_.front().commit_lsn >= *cut_lsn;
    if (!borders_.empty() || beyond_cut || !window_full()) return;
    const std::size_t count = pending_.size();
    write(count);
    written_of_open_ += count;
    drop(count);
    return;
  }
  const PendingBorder last = borders_[whole - 1];
  const std::size_t changes = last.change_end + written_of_open_;
  write(last.change_end);
  drop(last.change_end);
  commit_times_.clear();
  for (std::size_t i = 0; i < whole; ++i) commit_times_.push_back(borders_[i].border.commit_time);
  borders_.erase(borders_.begin(), borders_.begin() + static_cast<std::ptrdiff_t>(whole));
  for (auto& border : borders_) border.change_end -= last.change_end;
  if (changes == 0) {
    // Nothing of these was for us: a position, to be written with the next commit or when it is due.
    position_ = std::max(position_, last.border.end_lsn);
    positions_.last_commit_time = last.border.commit_time;
    return;
  }
  commit(last.border.end_lsn, last.border.commit_time, static_cast<std::int64_t>(whole), changes);
  measure_batch(changes);
}

void ApplyLoop::measure_batch(std::size_t changes) {
  positions_.batch_seconds.add(std::chrono::duration<double>(Clock::now() - batch_begun_).count());
  positions_.batch_changes.add(static_cast<double>(changes));
  for (const auto commit_time : commit_times_) positions_.delay_seconds.add(seconds_since(commit_time));
}

void ApplyLoop::write(std::size_t count) {
  std::span<const apply::Change> rest(pending_.data(), count);
  while (!rest.empty()) {
    if (!applier_.in_transaction()) {
      batch_begun_ = Clock::now();
      applier_.begin();
    }
    const auto window = rest.first(std::min(rest.size(), options_.window_changes));
    applier_.apply(window);
    rest = rest.subspan(window.size());
  }
}

// Forgets the first `count` pending changes, and chunks that nothing points into any more.
void ApplyLoop::drop(std::size_t count) {
  pending_.erase(pending_.begin(), pending_.begin() + static_cast<std::ptrdiff_t>(count));
  while (count > 0 && !held_.empty()) {
    auto& oldest = held_.front();
    const std::size_t gone = std::min(count, oldest.change_count);
    oldest.change_count -= gone;
    count -= gone;
    if (oldest.change_count > 0) break;
    held_bytes_ -= oldest.bytes;
    held_.pop_front();
  }
  positions_.window_bytes = held_bytes_;
  oldest_pending_ = Clock::now();
}

void ApplyLoop::commit(Lsn applied_lsn, std::int64_t commit_time, std::int64_t transactions, std::size_t changes) {
  if (!applier_.in_transaction()) applier_.begin();
  applier_.commit(applied_lsn, commit_time, transactions);
  written_of_open_ = 0;
  applied_lsn_ = applied_lsn;
  position_ = std::max(position_, applied_lsn);
  positions_.applied = applied_lsn.value;
  positions_.transactions += transactions;
  positions_.changes += static_cast<std::int64_t>(changes);
  if (commit_time != 0) positions_.last_commit_time = commit_time;
  last_position_commit_ = Clock::now();
  PGBATON_FAILPOINT("before_confirm");
  reader_.confirm(applied_lsn);
  PGBATON_FAILPOINT("confirmed");
}

// Makes a position without rows durable. Never while a transaction is half written: its own progress follows.
void ApplyLoop::commit_position(bool at_once) {
  if (position_ <= applied_lsn_ || written_of_open_ > 0 || !borders_.empty()) return;
  if (!at_once && Clock::now() - last_position_commit_ < kPositionInterval) return;
  commit(position_, 0, 0, 0);
}

// True when a cut was handed out. The cut is reached when what comes next lies at or beyond it, or everything below it
// is known to have been handed out; then exactly the transactions with commit LSN < cut are on the target.
bool ApplyLoop::serve_cut() {
  const auto cut_lsn = gate_.wanted();
  if (!cut_lsn) return false;
  if (!*cut_lsn) {
    if (written_of_open_ > 0) return false;
    gate_.arrive_and_rest(applied_lsn_, [this] { return queue_.closed(); });
    return true;
  }
  if (applied_lsn_ > *cut_lsn) {
    gate_.refuse(Error(ErrorKind::failed, "the target is already beyond the cut at " + to_string(*cut_lsn))
                     .lsn(applied_lsn_)
                     .action(Action::retry)
                     .hint("Let the stream rest first, then take the cut at a newer position."));
    return false;
  }
  if (borders_below(*cut_lsn) > 0) write_window();
  const bool next_is_beyond = (!borders_.empty() && borders_.front().border.commit_lsn >= *cut_lsn) ||
                              (!pending_.empty() && pending_.front().commit_lsn >= *cut_lsn);
  if (written_of_open_ > 0 || (!next_is_beyond && position_ < *cut_lsn)) return false;
  if (applied_lsn_ < *cut_lsn) commit(*cut_lsn, 0, 0, 0);
  gate_.arrive_and_rest(*cut_lsn, [this] { return queue_.closed(); });
  return true;
}

void ApplyLoop::finish() {
  if (!borders_.empty()) write_window();
  if (written_of_open_ > 0) {
    applier_.rollback();
    written_of_open_ = 0;
  }
  commit_position(true);
  gate_.refuse(Error(ErrorKind::failed, "the stream ended before the cut was reached").action(Action::retry));
}

}  // namespace pgbaton::stream
