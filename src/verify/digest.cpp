#include "digest.hpp"

#include <fmt/format.h>
#include <pgbaton/base/error.hpp>
#include <pgbaton/base/failpoint.hpp>
#include <pgbaton/base/log.hpp>
#include <pgbaton/base/rate_limit.hpp>

#include <algorithm>
#include <charconv>
#include <mutex>
#include <thread>

#include "side_session.hpp"

namespace pgbaton::verify {
namespace {

// 32 MB: about 0.3 s of work, so that a TRUNCATE on the target, a stop or the rate limit waits no longer.
constexpr std::uint64_t kPieceBlocks = 4096;
constexpr std::uint64_t kBlockBytes = 8192;
constexpr int kFirstTidRangeScan = 140000;
constexpr std::chrono::seconds kLogInterval{10};

struct Piece {
  std::size_t table = 0;
  std::uint64_t first_block = 0, end_block = 0;  // end 0: to the end of the table, which may have grown
  std::uint64_t blocks = 0;                      // about how many that is
  bool whole() const { return first_block == 0 && end_block == 0; }
};

std::int64_t to_number(std::string_view text) {
  std::int64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

// The largest tables first, so that no worker is left alone with one at the end.
std::vector<Piece> cut_into_pieces(const std::vector<TablePlan>& plans, Where where, bool by_range) {
  std::vector<std::size_t> order(plans.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::stable_sort(order, std::ranges::greater(),
                           [&](std::size_t i) { return plans[i].side(where).table.heap_blocks; });
  std::vector<Piece> pieces;
  for (const auto i : order) {
    const auto& table = plans[i].side(where).table;
    const bool cut = by_range && table.kind == 'r';
    std::uint64_t at = 0;
    for (; cut && at + kPieceBlocks * 3 / 2 < table.heap_blocks; at += kPieceBlocks)
      pieces.push_back({i, at, at + kPieceBlocks, kPieceBlocks});
    pieces.push_back({i, at, 0, table.heap_blocks - std::min(at, table.heap_blocks)});
  }
  return pieces;
}

std::string range_of(const Piece& piece) {
  if (piece.whole()) return {};
  auto text = fmt::format("ctid >= '({},0)'::tid", piece.first_block);
  if (piece.end_block != 0) text += fmt::format(" AND ctid < '({},0)'::tid", piece.end_block);
  return text;
}

std::string digest_query(const TablePlan& plan, Where where, const Piece& piece) {
  return fmt::format("SELECT kh & {}, count(*), sum(rh) FROM ({}) x{} GROUP BY 1", plan.bucket_mask,
                     plan.rows(where, plan.side(where).row_hash + " AS rh", range_of(piece)),
                     plan.sample.empty() ? "" : " WHERE " + plan.sample);
}

// Everything that the workers share.
class Scan {
 public:
  Scan(const ScanOptions& options, const std::vector<TablePlan>& plans)
      : options_(options), plans_(plans), digests_(plans.size()) {
    for (const auto where : kBothSides) limits_[index(where)] = std::make_unique<RateLimit>(options.max_rate);
  }

  void work(Where where) noexcept {
    try {
      SideSession session(where == Where::source ? options_.source : options_.target, where,
                          where == Where::source ? options_.source_snapshot : options_.target_snapshot,
                          options_.deadline, halt_.get_token());
      while (auto piece = take(where)) read(session, *piece);
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!error_) error_ = std::current_exception();
      halt_.request_stop();
    }
  }
  void prepare(Where where, std::vector<Piece> pieces) {
    for (const auto& piece : pieces) blocks_ += piece.blocks;
    pieces_[index(where)] = std::move(pieces);
  }
  std::size_t pieces(Where where) const { return pieces_[index(where)].size(); }
  void halt() { halt_.request_stop(); }
  std::vector<TableDigest> result(const std::stop_token& stop) {
    if (stop.stop_requested())
      throw Error(ErrorKind::failed, "interrupted while comparing").hint("Run the same command again.");
    if (error_) std::rethrow_exception(error_);
    return std::move(digests_);
  }

 private:
  static std::size_t index(Where where) { return static_cast<std::size_t>(where); }

  std::optional<Piece> take(Where where) {
    const std::lock_guard lock(mutex_);
    auto& next = next_[index(where)];
    if (halt_.stop_requested() || next == pieces_[index(where)].size()) return std::nullopt;
    return pieces_[index(where)][next++];
  }

  void read(SideSession& session, const Piece& piece) try {
    const auto& plan = plans_[piece.table];
    auto& digest = digests_[piece.table].sides[index(session.where())];
    {
      const std::lock_guard lock(mutex_);
      if (digest.moved) return;
    }
    const auto rest = limits_[index(session.where())]->book(piece.blocks * kBlockBytes);
    if (rest > Milliseconds(0)) sleep_for(rest, halt_.get_token());
    const auto start = Clock::now();
    std::optional<pg::Result> rows;
    if (session.enter(plan)) rows.emplace(session.exec(digest_query(plan, session.where(), piece)));
    session.leave();
    PGBATON_FAILPOINT("verify_piece");
    add(digest, rows, start);
    note_progress(piece);
  } catch (Error& error) {
    if (error.table().empty()) error.table(plans_[piece.table].name.quoted());
    throw;
  }

  void add(SideDigest& digest, const std::optional<pg::Result>& rows, Clock::time_point start) {
    const std::lock_guard lock(mutex_);
    digest.time += std::chrono::duration_cast<Milliseconds>(Clock::now() - start);
    if (!rows) {
      digest.moved = true;
      return;
    }
    for (int i = 0; i < rows->rows(); ++i) {
      auto& bucket = digest.buckets[to_number(rows->value(i, 0))];
      const auto count = to_number(rows->value(i, 1));
      bucket.rows += count;
      bucket.sum += parse_sum(rows->value(i, 2));
      digest.rows += count;
    }
  }

  void note_progress(const Piece& piece) {
    const std::lock_guard lock(mutex_);
    done_ += piece.blocks;
    if (Clock::now() < next_log_) return;
    next_log_ = Clock::now() + kLogInterval;
    log::info("comparing: {:.0f} % of {} MB on both sides",
              100.0 * static_cast<double>(done_) / static_cast<double>(std::max<std::uint64_t>(blocks_, 1)),
              blocks_ * kBlockBytes >> 20);
  }

  const ScanOptions& options_;
  const std::vector<TablePlan>& plans_;
  std::array<std::vector<Piece>, 2> pieces_;
  std::array<std::unique_ptr<RateLimit>, 2> limits_;
  std::stop_source halt_;
  std::mutex mutex_;  // of all below
  std::array<std::size_t, 2> next_{};
  std::vector<TableDigest> digests_;
  std::exception_ptr error_;
  std::uint64_t blocks_ = 0, done_ = 0;
  Clock::time_point next_log_ = Clock::now() + kLogInterval;
};

bool scans_tid_ranges(const pg::Endpoint& endpoint) {
  return pg::Connection::open(endpoint, "verify").server_version() >= kFirstTidRangeScan;
}

}  // namespace

std::uint64_t parse_sum(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);
  std::uint64_t value = 0;  // wraps on purpose
  for (const char c : text) value = value * 10 + static_cast<std::uint64_t>(c - '0');
  return negative ? 0 - value : value;
}

std::vector<std::int64_t> TableDigest::differing() const {
  std::vector<std::int64_t> result;
  const auto& [source, target] = sides;
  for (const auto& [bucket, sums] : source.buckets) {
    const auto other = target.buckets.find(bucket);
    if (other == target.buckets.end() || other->second != sums) result.push_back(bucket);
  }
  for (const auto& [bucket, sums] : target.buckets)
    if (!source.buckets.contains(bucket)) result.push_back(bucket);
  return result;
}

std::vector<TableDigest> digest_tables(const ScanOptions& options, const std::vector<TablePlan>& plans,
                                       const std::stop_token& stop) {
  Scan scan(options, plans);
  scan.prepare(Where::source, cut_into_pieces(plans, Where::source, scans_tid_ranges(options.source)));
  scan.prepare(Where::target, cut_into_pieces(plans, Where::target, scans_tid_ranges(options.target)));
  {
    const std::stop_callback on_stop(stop, [&] { scan.halt(); });
    std::vector<std::jthread> workers;
    for (const auto where : kBothSides)
      for (std::size_t i = 0; i < std::min(static_cast<std::size_t>(options.jobs), scan.pieces(where)); ++i)
        workers.emplace_back([&scan, where] { scan.work(where); });
  }
  return scan.result(stop);
}

}  // namespace pgbaton::verify
