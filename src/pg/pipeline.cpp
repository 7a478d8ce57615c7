#include <fmt/format.h>
#include <poll.h>

#include <pgbaton/pg/pipeline.hpp>
#include <utility>

#include "socket.hpp"

namespace pgbaton::pg {
namespace {

// What may wait in libpq's output buffer before send() waits for the socket: enough for several round trips, and far
// below any memory ceiling.
constexpr std::size_t kFlushBytes = 256 * 1024;
constexpr Milliseconds kForever{60'000};  // one poll(); the loops around it go on

}  // namespace

Pipeline::Pipeline(Connection& connection) : connection_(connection) {
  PGconn* c = connection_.get();
  if (PQsetnonblocking(c, 1) != 0 || PQenterPipelineMode(c) != 1)
    throw connection_.error(nullptr, "starting a pipeline");
}

Pipeline::~Pipeline() {
  PGconn* c = connection_.get();
  try {
    if (!pending_.empty() && PQstatus(c) == CONNECTION_OK) drain(false);
  } catch (...) {  // the connection is lost: its next use reports that
  }
  PQexitPipelineMode(c);
  PQsetnonblocking(c, 0);
}

void Pipeline::send(const std::string& sql, std::span<const Parameter> parameters, Check check, std::uint64_t tag) {
  fill(parameters);
  sent(PQsendQueryParams(connection_.get(), sql.c_str(), static_cast<int>(values_.size()), nullptr, values_.data(),
                         nullptr, nullptr, 0),
       sql.size(), {std::move(check), tag});
}

void Pipeline::send(const std::string& sql, std::span<const Parameter> parameters, std::span<const int> formats,
                    Check check, std::uint64_t tag) {
  fill(parameters, formats);
  sent(PQsendQueryParams(connection_.get(), sql.c_str(), static_cast<int>(values_.size()), nullptr, values_.data(),
                         lengths_.data(), formats.data(), 0),
       sql.size(), {std::move(check), tag});
}

void Pipeline::prepare(const std::string& name, const std::string& sql) {
  sent(PQsendPrepare(connection_.get(), name.c_str(), sql.c_str(), 0, nullptr), sql.size(), {});
}

void Pipeline::send_prepared(const std::string& name, std::span<const Parameter> parameters, Check check,
                             std::uint64_t tag) {
  fill(parameters);
  sent(PQsendQueryPrepared(connection_.get(), name.c_str(), static_cast<int>(values_.size()), values_.data(), nullptr,
                           nullptr, 0),
       name.size(), {std::move(check), tag});
}

// libpq wants text parameters with a zero byte at their end: one buffer, written anew for every statement. Binary ones,
// which may be as large as a row, are taken from where they are.
void Pipeline::fill(std::span<const Parameter> parameters, std::span<const int> formats) {
  const auto is_text = [&](std::size_t at) { return formats.empty() || formats[at] == 0; };
  std::size_t size = 0, text_size = 0;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (!parameters[i]) continue;
    size += parameters[i]->size() + 1;
    if (is_text(i)) text_size += parameters[i]->size() + 1;
  }
  scratch_.clear();
  scratch_.reserve(text_size);
  values_.clear();
  lengths_.clear();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Parameter& parameter = parameters[i];
    lengths_.push_back(parameter ? static_cast<int>(parameter->size()) : 0);
    if (!parameter) {
      values_.push_back(nullptr);
    } else if (!is_text(i)) {
      values_.push_back(parameter->data() != nullptr ? parameter->data() : "");
    } else if (parameter->find('\0') != parameter->npos) {
      throw Error(ErrorKind::failed, "a text parameter holds a zero byte").side(connection_.side()).action(Action::bug);
    } else {
      values_.push_back(scratch_.data() + scratch_.size());
      scratch_.append(*parameter).push_back('\0');
    }
  }
  unflushed_ += size;
}

void Pipeline::sent(int outcome, std::size_t bytes, Entry entry) {
  if (outcome != 1) throw connection_.error(nullptr, "sending a statement");
  pending_.push_back(std::move(entry));
  unflushed_ += bytes + 64;
  if (unflushed_ >= kFlushBytes) flush_some();
}

// Writes until libpq's buffer is empty, and reads meanwhile: a server that cannot send its results stops reading.
// True when the end of the pipeline was among the results.
bool Pipeline::flush_some() {
  PGconn* c = connection_.get();
  unflushed_ = 0;
  while (true) {
    const int left = PQflush(c);
    if (left < 0) throw connection_.error(nullptr, "sending statements");
    if (left == 0) break;
    if ((wait_socket(c, POLLIN | POLLOUT, kForever) & POLLIN) != 0) consume();
  }
  return take_results();
}

void Pipeline::consume() {
  if (PQconsumeInput(connection_.get()) == 0) throw connection_.error(nullptr, "reading results");
}

// Takes the results that have arrived, in the order of the statements. True at the end of the pipeline.
bool Pipeline::take_results() {
  PGconn* c = connection_.get();
  while (PQisBusy(c) == 0) {
    PGresult* raw = PQgetResult(c);
    if (raw == nullptr) {
      // Between two statements; nothing more when every statement has been answered.
      if (between_) return false;
      between_ = true;
      continue;
    }
    const Result result(raw);
    if (result.status() == PGRES_PIPELINE_SYNC) return true;
    between_ = false;
    take(result);
    if (PQstatus(c) == CONNECTION_BAD) throw connection_.error(nullptr, "reading results");
  }
  return false;
}

void Pipeline::take(const Result& result) {
  if (answered_ >= pending_.size()) return;
  const Entry& entry = pending_[answered_++];
  if (failure_ || result.status() == PGRES_PIPELINE_ABORTED) return;
  try {
    if (result.status() != PGRES_COMMAND_OK && result.status() != PGRES_TUPLES_OK) {
      throw connection_.error(result.get(), "");
    }
    if (entry.check && checking_) entry.check(result);
  } catch (...) {
    failure_ = std::current_exception();
    failed_tag_ = entry.tag;
  }
}

void Pipeline::drain(bool checking) {
  PGconn* c = connection_.get();
  checking_ = checking;
  if (PQpipelineSync(c) != 1) throw connection_.error(nullptr, "ending a pipeline");
  while (true) {
    if (flush_some()) break;
    wait_socket(c, POLLIN, kForever);
    consume();
  }
  pending_.clear();
  answered_ = 0;
  between_ = false;
}

void Pipeline::run() {
  drain(true);
  if (const auto failure = std::exchange(failure_, nullptr)) std::rethrow_exception(failure);
}

}  // namespace pgbaton::pg
