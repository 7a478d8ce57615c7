// The watchdog's own end.
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>
#include <pgbaton/base/error.hpp>
#include <pgbaton/base/log.hpp>
#include <pgbaton/pg/connection.hpp>
#include <pgbaton/pg/control.hpp>
#include <pgbaton/pg/plain_password.hpp>
#include <pgbaton/state/switchover.hpp>

#include <array>
#include <cerrno>
#include <csignal>
#include <optional>
#include <sstream>

#include "fence.hpp"
#include "watchdog.hpp"

namespace pgbaton::switchover {

namespace {

constexpr Milliseconds kRetry{200};
// Triggers that let everything pass, on tables that are being read: as long as anybody may care.
constexpr Milliseconds kRemovePatience{600'000};
// A backend that was told to end does so at once, unless the kernel holds it.
constexpr Milliseconds kBackendPatience{3'000};

class Process {
 public:
  int run() {
    allow_plain_password(line());
    source_.side = Side::source;
    target_.side = Side::target;
    source_.replica_name = target_.replica_name = line();
    source_.conninfo = line();
    target_.conninfo = line();
    attempt_ = std::stoll(line());
    deadline_after_ = Milliseconds(std::stoll(line()));
    pgbouncer_ = line();
    paused_ = line();
    try {
      connect();
    } catch (const Error& error) {
      say(error.describe());
      return 1;
    }
    say("ready");
    return watch();
  }

 private:
  static void allow_plain_password(const std::string& list) {
    std::vector<std::string> hosts;
    std::istringstream from(list);
    for (std::string host; std::getline(from, host, ',');) hosts.push_back(host);
    pg::allow_plain_password(std::move(hosts));
  }

  // Ends at the end of the pipe, which is the conductor's.
  std::string line() {
    for (;;) {
      if (const auto end = buffer_.find('\n'); end != buffer_.npos) {
        auto text = buffer_.substr(0, end);
        buffer_.erase(0, end + 1);
        return text;
      }
      if (gone_ || !wait()) return "undo";
    }
  }

  // False when the deadline passed.
  bool wait() {
    pollfd input{STDIN_FILENO, POLLIN, 0};
    const auto left = deadline_.left(Milliseconds(60'000));
    if (left == Milliseconds(0)) return false;
    if (::poll(&input, 1, static_cast<int>(left.count())) <= 0) return true;
    std::array<char, 4096> chunk{};
    const auto got = ::read(STDIN_FILENO, chunk.data(), chunk.size());
    if (got == 0 || (got < 0 && errno != EINTR)) gone_ = true;
    if (got > 0) buffer_.append(chunk.data(), static_cast<std::size_t>(got));
    return true;
  }

  void say(const std::string& text) {
    const auto all = text + "\n";
    [[maybe_unused]] const auto written = ::write(STDOUT_FILENO, all.data(), all.size());
  }

  void connect() { connection_.emplace(open_fence_session(source_, "watchdog")); }

  int watch() {
    for (;;) {
      const auto said = line();
      if (said.starts_with("fence ")) {
        backend_ = std::stoi(said.substr(6));
        about_ = said.substr(std::min(said.find(' ', 6), said.size() - 1) + 1);
        deadline_ = Deadline::after(deadline_after_);
        say("watching");
      } else if (said == "alive") {
        say("watching");
      } else if (said == "flip") {
        flipping_ = true;
        say("go");
      } else if (said == "flipped") {
        say("well");
        return 0;
      } else {
        return undo(said);
      }
    }
  }

  int undo(const std::string& said) {
    const std::string reason = gone_ ? "its process ended" : said.size() > 5 ? said.substr(5) : "its deadline passed";
    deadline_ = Deadline::never();
    log::warning("watchdog: opening the source again: {}", reason);
    if (flipping_ && !try_until_done([&] { return !give_up(reason); })) {
      say("flipped");
      return 0;
    }
    try_until_done([&] {
      open();
      return true;
    });
    say("open");
    resume();
    if (!flipping_) tell_target(reason);
    const bool clean =
        try_until_done([&] { return remove_fence(*connection_, Deadline::after(kRemovePatience), {}, about_); });
    say(clean ? "clean" : "left");
    return answer_late_questions();
  }

  // The value of `work`, which is tried until no error of a server or a network is in its way.
  template <typename Work>
  bool try_until_done(Work&& work) {
    for (;;) {
      try {
        if (!connection_) connect();
        return work();
      } catch (const std::exception& error) {
        log::warning("watchdog: {}", error.what());
        connection_.reset();
        ::poll(nullptr, 0, static_cast<int>(kRetry.count()));
      }
    }
  }

  // True when the target has flipped.
  bool give_up(const std::string& reason) {
    auto target = pg::open_control(target_, "watchdog");
    return !state::undo_switchover(*target, attempt_, reason);
  }

  void tell_target(const std::string& reason) {
    try {
      give_up(reason);
    } catch (const std::exception& error) {
      log::warning("watchdog: not recorded on the target: {}", error.what());
    }
  }

  // The conductor's session may be about to commit the fence.
  void open() {
    if (backend_ != 0) {
      const auto pid = std::to_string(backend_);
      connection_->exec("select pg_catalog.pg_terminate_backend(" + pid + ")");
      const auto patience = Deadline::after(kBackendPatience);
      const auto lives = "select 1 from pg_catalog.pg_stat_activity where pid = " + pid;
      while (connection_->exec(lives).rows() > 0 && !patience.passed()) ::poll(nullptr, 0, 5);
    }
    open_fence(*connection_, about_);
  }

  void resume() {
    if (pgbouncer_.empty() || paused_.empty()) return;
    try {
      pgbouncer_command(pgbouncer_, "RESUME " + quote_identifier(paused_));
    } catch (const Error& error) {
      log::debug("watchdog: {}", error.describe());  // it was not paused
    }
  }

  // A conductor that was only frozen asks for its flip now.
  int answer_late_questions() {
    while (!gone_) {
      const auto said = line();
      if (gone_) break;
      if (said.starts_with("undo"))
        say("open\nclean");
      else
        say("no");
    }
    return 0;
  }

  pg::Endpoint source_, target_;
  std::int64_t attempt_ = 0;
  Milliseconds deadline_after_{0};
  std::string pgbouncer_, paused_, buffer_, about_;
  std::optional<pg::Connection> connection_;
  Deadline deadline_ = Deadline::never();
  int backend_ = 0;
  bool gone_ = false, flipping_ = false;
};

}  // namespace

int run_watchdog() {
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) std::signal(number, SIG_IGN);
  try {
    return Process().run();
  } catch (const std::exception& error) {
    log::error("watchdog: {}", error.what());
    return 1;
  }
}

}  // namespace pgbaton::switchover
