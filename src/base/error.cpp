#include <algorithm>
#include <pgbaton/base/error.hpp>
#include <utility>

namespace pgbaton {

// The exit table of the command line contract; scripts of others rely on it.
int exit_code(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::failed:
      return 1;
    case ErrorKind::usage:
      return 2;
    case ErrorKind::preflight:
      return 3;
    case ErrorKind::boundary_lost:
      return 4;
    case ErrorKind::timed_out:
      return 5;
    case ErrorKind::differences:
      return 6;
    case ErrorKind::held_elsewhere:
      return 7;
    case ErrorKind::rejected:
      return 8;
  }
  return 1;  // not reached: the switch is complete
}

std::string_view to_string(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::failed:
      return "failed";
    case ErrorKind::usage:
      return "usage";
    case ErrorKind::preflight:
      return "preflight";
    case ErrorKind::boundary_lost:
      return "boundary_lost";
    case ErrorKind::timed_out:
      return "timed_out";
    case ErrorKind::differences:
      return "differences";
    case ErrorKind::held_elsewhere:
      return "held_elsewhere";
    case ErrorKind::rejected:
      return "rejected";
  }
  return "failed";
}

std::string_view to_string(Side side) {
  switch (side) {
    case Side::local:
      return "local";
    case Side::source:
      return "source";
    case Side::target:
      return "target";
  }
  return "local";
}

Error::Error(ErrorKind kind, const std::string& message, std::source_location where)
    : std::runtime_error(message), kind_(kind), message_(message), where_(where) {}

Error& Error::side(Side value) & {
  side_ = value;
  return *this;
}
Error&& Error::side(Side value) && {
  return std::move(side(value));
}
Error& Error::sqlstate(std::string_view value) & {
  sqlstate_ = value;
  return *this;
}
Error&& Error::sqlstate(std::string_view value) && {
  return std::move(sqlstate(value));
}
Error& Error::table(std::string_view value) & {
  table_ = value;
  return *this;
}
Error&& Error::table(std::string_view value) && {
  return std::move(table(value));
}
Error& Error::key(std::string_view value) & {
  key_ = value;
  return *this;
}
Error&& Error::key(std::string_view value) && {
  return std::move(key(value));
}
Error& Error::lsn(Lsn value) & {
  lsn_ = value;
  return *this;
}
Error&& Error::lsn(Lsn value) && {
  return std::move(lsn(value));
}
Error& Error::hint(std::string_view value) & {
  hint_ = value;
  return *this;
}
Error&& Error::hint(std::string_view value) && {
  return std::move(hint(value));
}
Error& Error::action(Action value) & {
  action_ = value;
  return *this;
}
Error&& Error::action(Action value) && {
  return std::move(action(value));
}

Error& Error::context(std::string_view doing) & {
  message_.insert(0, std::string(doing) + ": ");
  return *this;
}

namespace {

std::string_view general_hint(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::failed:
      return "Nothing is lost: run the same command again. If it fails again, the server's log tells more.";
    case ErrorKind::usage:
      return "pgbaton --help lists commands and options.";
    case ErrorKind::preflight:
      return "`pgbaton check` lists everything that stands in the way.";
    case ErrorKind::boundary_lost:
      return "Changes are missing: begin anew with `pgbaton clone --restart`.";
    case ErrorKind::timed_out:
      return "Nothing is lost: run the same command again; a longer time limit waits on.";
    case ErrorKind::differences:
      return "Look at the differences that are listed.";
    case ErrorKind::held_elsewhere:
      return "`pgbaton status` names the process that holds the replica; --take-over ends it.";
    case ErrorKind::rejected:
      return "Mend what the message names, on the target or on the source, then run the same command again.";
  }
  return "";
}

// Servers and libraries break and indent their messages; a log line and an ERROR line are one line each.
std::string folded(std::string_view text) {
  constexpr std::string_view kBreaks = "\n\r\t\v\f";
  std::string line;
  while (true) {
    const auto end = std::min(text.find_first_of(kBreaks), text.size());
    line += text.substr(0, end);
    text.remove_prefix(end);
    const auto next = text.find_first_not_of("\n\r\t\v\f ");
    if (next == text.npos) return line;
    text.remove_prefix(next);
    line += ' ';
  }
}

}  // namespace

std::string Error::hint() const {
  if (has_hint()) return hint_;
  if (action_ == Action::bug) return "This should not happen: please report it, with this message and the log.";
  return std::string(general_hint(kind_));
}

std::string Error::describe() const {
  std::string known;
  const auto add = [&known](std::string_view label, std::string_view value) {
    if (value.empty()) return;
    known += known.empty() ? " (" : ", ";
    known += label;
    known += value;
  };
  if (side_ != Side::local) add("", to_string(side_));
  add("SQLSTATE ", sqlstate_);
  add("table ", table_);
  add("key ", key_);
  if (lsn_) add("LSN ", to_string(lsn_));
  return folded(message_ + (known.empty() ? known : known + ")"));
}

}  // namespace pgbaton
