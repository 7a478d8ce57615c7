#include "watchdog.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>
#include <pgbaton/base/error.hpp>
#include <pgbaton/base/log.hpp>
#include <pgbaton/pg/connection.hpp>
#include <pgbaton/pg/plain_password.hpp>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

namespace pgbaton::switchover {

namespace {

constexpr Milliseconds kStartPatience{20'000}, kAnswerPatience{5'000}, kLastPatience{500};
// The source is open by then; triggers may wait for readers a little longer.
constexpr Milliseconds kCleanPatience{15'000};

Error broken(std::string_view what) {
  return Error(ErrorKind::failed, fmt::format("the watchdog {}", what))
      .action(Action::stop)
      .hint("Run the same command again; if it stays, start it with --log-level debug.");
}

struct Ends {
  int read = -1, write = -1;
};

Ends make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw broken(fmt::format("has no pipe: {}", std::strerror(errno)));
  return {ends[0], ends[1]};
}

// Between fork and exec of a process with threads: async-signal-safe calls only.
[[noreturn]] void become_watchdog(int input, int output, char* const* argv) {
  ::setsid();
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  ::dup2(input, STDIN_FILENO);
  ::dup2(output, STDOUT_FILENO);
  ::execv("/proc/self/exe", argv);
  ::_exit(127);
}

std::string one_line(std::string text) {
  for (auto& c : text)
    if (c == '\n' || c == '\r') c = ' ';
  return text;
}

}  // namespace

Error deadline_passed(const std::string& what) {
  return Error(ErrorKind::timed_out, what.empty() ? "the deadline passed, and the watchdog has opened the source again"
                                                  : fmt::format("the deadline passed: {}", what))
      .hint("Nothing is lost. Give more time with deadline in section switchover, or make the steps shorter.");
}

Watchdog::Watchdog(const pg::Endpoint& source, const pg::Endpoint& target, std::int64_t attempt,
                   const Settings& settings) {
  const auto down = make_pipe(), up = make_pipe();
  std::string name = "pgbaton", word(kWatchdogWord);
  std::array<char*, 3> argv{name.data(), word.data(), nullptr};
  pid_ = ::fork();
  if (pid_ == 0) become_watchdog(down.read, up.write, argv.data());
  ::close(down.read);
  ::close(up.write);
  to_ = down.write;
  from_ = up.read;
  if (pid_ < 0) throw broken("could not be started");
  say(one_line(fmt::format("{}", fmt::join(pg::plain_password_hosts(), ","))));
  say(source.replica_name);
  say(one_line(source.conninfo));
  say(one_line(target.conninfo));
  say(std::to_string(attempt));
  say(std::to_string(settings.deadline.count()));
  say(one_line(settings.pgbouncer));
  say(one_line(settings.pgbouncer_pause));
  if (const auto said = answer(kStartPatience); said != "ready")
    throw broken(said.empty() ? "did not start" : "cannot reach the source: " + said);
}

Watchdog::~Watchdog() {
  if (to_ >= 0) ::close(to_);
  if (from_ >= 0) ::close(from_);
  if (pid_ <= 0) return;
  // It goes on alone for as long as triggers are left, and is nobody's to wait for then.
  for (int i = 0; i < 100 && ::waitpid(pid_, nullptr, WNOHANG) == 0; ++i) ::poll(nullptr, 0, 10);
}

void Watchdog::say(const std::string& line) {
  const auto text = line + "\n";
  std::size_t sent = 0;
  while (sent < text.size()) {
    const auto got = ::write(to_, text.data() + sent, text.size() - sent);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return;  // the answer will be missing, which is noticed
    sent += static_cast<std::size_t>(got);
  }
}

std::string Watchdog::answer(Milliseconds patience) {
  const auto deadline = Deadline::after(patience);
  for (;;) {
    if (const auto end = buffer_.find('\n'); end != buffer_.npos) {
      auto line = buffer_.substr(0, end);
      buffer_.erase(0, end + 1);
      return line;
    }
    pollfd wait{from_, POLLIN, 0};
    const auto left = deadline.left(patience);
    if (left == Milliseconds(0)) return {};
    if (::poll(&wait, 1, static_cast<int>(left.count())) <= 0) continue;
    std::array<char, 1024> chunk{};
    const auto got = ::read(from_, chunk.data(), chunk.size());
    if (got == 0 || (got < 0 && errno != EINTR)) return {};
    if (got > 0) buffer_.append(chunk.data(), static_cast<std::size_t>(got));
  }
}

void Watchdog::fence(int backend_pid, const std::string& about) {
  say(fmt::format("fence {} {}", backend_pid, one_line(about)));
  if (answer(kAnswerPatience) != "watching") throw broken("does not answer");
}

void Watchdog::require_watching() {
  say("alive");
  require("watching");
}

void Watchdog::require_flip() {
  say("flip");
  require("go");
}

void Watchdog::require(const std::string& expected) {
  const auto said = answer(kAnswerPatience);
  if (said == expected) return;
  silent_ = said.empty();
  if (silent_) throw broken("does not answer");
  // "no", or what it told when it gave up.
  throw deadline_passed("");
}

void Watchdog::flipped() {
  say("flipped");
  answer(kAnswerPatience);
}

Undone Watchdog::undo(const std::string& reason) {
  say("undo " + one_line(reason));
  // What it had told before is read past.
  const auto patience = silent_ ? kLastPatience : kAnswerPatience;
  auto said = answer(patience);
  while (!said.empty() && said != "flipped" && said != "open") said = answer(patience);
  if (said == "flipped") return Undone::flipped;
  if (said != "open") return Undone::unknown;
  if (answer(kCleanPatience) != "clean")
    log::warning(
        "the source is open again; triggers that let everything pass are left on tables which are being read: "
        "pgbaton switchover --undo removes them");
  return Undone::open;
}

}  // namespace pgbaton::switchover
