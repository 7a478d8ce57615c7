#include <pgbaton/copy/process.hpp>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <pgbaton/base/error.hpp>
#include <pgbaton/base/time.hpp>
#include <pgbaton/pg/endpoint.hpp>

namespace pgbaton::copy {
namespace {

// How often a stop request is looked for while the child says nothing.
constexpr Milliseconds kStopInterval{50};
// pg_dump cancels its query and disconnects after SIGTERM; a child that does not react gets SIGKILL.
constexpr Milliseconds kTermPatience{3000};
constexpr std::string_view kPassword = "PGPASSWORD";

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor() { close(); }
  int get() const { return fd_; }
  bool open() const { return fd_ >= 0; }
  void close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }

 private:
  int fd_ = -1;
};

struct Pipe {
  Descriptor read, write;
};

Error system_error(std::string_view doing, int number) {
  return Error(ErrorKind::failed, fmt::format("{}: {}", doing, std::strerror(number)));
}

Pipe make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw system_error("making a pipe for a child process", errno);
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  result.reserve(texts.size() + 1);
  for (auto& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

// A password file that has no name and goes with the last process that has it open: the environment of a process can be
// read by others of the same user for as long as it runs. Nothing where that cannot be; a line holds no line break.
Descriptor password_file(std::string_view password) {
  if (password.find_first_of("\r\n") != password.npos || ::access("/proc/self/fd", X_OK) != 0) return {};
  Descriptor file(::memfd_create("pgpass", MFD_CLOEXEC));
  if (!file.open() || ::fchmod(file.get(), S_IRUSR | S_IWUSR) != 0) return {};
  std::string line = "*:*:*:*:";
  for (const char c : password) line += c == ':' || c == '\\' ? std::string{'\\', c} : std::string{c};
  line += '\n';
  if (::write(file.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size())) return {};
  return file;
}

// Ours, without passwords, and what the command brings.
std::vector<std::string> child_environment(const Command& command, const Descriptor& passwords) {
  std::vector<std::string> result;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    std::string_view text = *entry;
    auto name = text.substr(0, text.find('='));
    bool replaced = false;
    for (const auto& [key, value] : command.environment) replaced = replaced || key == name;
    if (replaced || (passwords.open() && name == "PGPASSFILE")) continue;
    const bool conninfo = name == "PGBATON_SOURCE" || name == "PGBATON_TARGET";
    result.push_back(conninfo ? fmt::format("{}={}", name, pg::redact(text.substr(name.size() + 1)))
                              : std::string(text));
  }
  for (const auto& [key, value] : command.environment)
    if (key != kPassword || !passwords.open()) result.push_back(key + "=" + value);
  if (passwords.open()) result.push_back(fmt::format("PGPASSFILE=/proc/self/fd/{}", passwords.get()));
  return result;
}

struct ChildSetup {
  const char* program;
  char* const* argv;
  char* const* envp;
  int output, errors, null_input, status, passwords;  // the last -1: none
  pid_t parent;
};

// Between fork and exec of a process with threads: async-signal-safe calls only, so everything is prepared before.
[[noreturn]] void become_program(const ChildSetup& setup) {
  // A terminal's ^C goes to us alone; we stop the child in order.
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);  // pg_dump cancels its query on it
  if (::getppid() != setup.parent) ::_exit(127);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  signal(SIGPIPE, SIG_DFL);
  ::dup2(setup.null_input, STDIN_FILENO);
  ::dup2(setup.output, STDOUT_FILENO);
  ::dup2(setup.errors, STDERR_FILENO);
  if (setup.passwords >= 0) ::fcntl(setup.passwords, F_SETFD, 0);
  ::execve(setup.program, setup.argv, setup.envp);
  int number = errno;
  [[maybe_unused]] auto written = ::write(setup.status, &number, sizeof number);
  ::_exit(127);
}

// A child that is killed and reaped, whatever happens to us in between.
class Child {
 public:
  explicit Child(pid_t pid) : pid_(pid) {}
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    if (reaped_) return;
    signal(SIGKILL);
    wait(0);
  }
  // With what it has started: it leads a group of its own, once it has come so far. A shell's command would keep our
  // pipes open otherwise.
  void signal(int number) const noexcept {
    if (::kill(-pid_, number) != 0) ::kill(pid_, number);
  }
  // True once it has ended; `options` 0 waits for that, WNOHANG does not.
  bool wait(int options) noexcept {
    pid_t got;
    do got = ::waitpid(pid_, &status_, options);
    while (got < 0 && errno == EINTR);
    reaped_ = got != 0;
    return reaped_;
  }
  int exit_code() const { return WIFEXITED(status_) ? WEXITSTATUS(status_) : 128 + WTERMSIG(status_); }

 private:
  pid_t pid_;
  int status_ = 0;
  bool reaped_ = false;
};

// Appends what is there; closes the descriptor at the end of the stream.
void drain(Descriptor& from, std::string& into) {
  std::array<char, 65536> buffer;
  auto got = ::read(from.get(), buffer.data(), buffer.size());
  if (got > 0) into.append(buffer.data(), static_cast<std::size_t>(got));
  if (got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN)) from.close();
}

void cut_head(std::string& text, std::size_t bytes) {
  if (text.size() > bytes) text.erase(0, text.size() - bytes);
}

// Cuts seldom: each cut moves what stays.
void keep_tail(std::string& text, std::size_t bytes) {
  if (text.size() / 2 > bytes) cut_head(text, bytes);
}

class StopWatch {
 public:
  StopWatch(Child& child, const std::stop_token& stop) : child_(child), stop_(stop) {}
  void look() {
    if (!asked_ && stop_.stop_requested()) {
      asked_ = true;
      child_.signal(SIGTERM);
      patience_ = Deadline::after(kTermPatience);
    }
    if (!asked_ || !patience_.passed()) return;
    child_.signal(SIGKILL);
    killed_ = true;
  }
  bool asked() const { return asked_; }
  bool killed() const { return killed_; }

 private:
  Child& child_;
  const std::stop_token& stop_;
  bool asked_ = false, killed_ = false;
  Deadline patience_ = Deadline::never();
};

Outcome collect(Child& child, Descriptor output, Descriptor errors, std::size_t output_bytes,
                const std::stop_token& stop) {
  Outcome outcome;
  StopWatch watch(child, stop);
  // A process that it has put into a session of its own is not killed with it, and may hold the pipes.
  while (!watch.killed() && (output.open() || errors.open())) {
    std::array<pollfd, 2> waits{{{output.get(), POLLIN, 0}, {errors.get(), POLLIN, 0}}};
    if (::poll(waits.data(), waits.size(), static_cast<int>(kStopInterval.count())) > 0) {
      if (waits[0].revents != 0) drain(output, outcome.output);
      if (waits[1].revents != 0) drain(errors, outcome.errors);
      keep_tail(outcome.output, output_bytes);
      keep_tail(outcome.errors, kErrorsBytes);
    }
    watch.look();
  }
  while (!child.wait(WNOHANG)) {
    watch.look();
    ::poll(nullptr, 0, 5);
  }
  cut_head(outcome.output, output_bytes);
  cut_head(outcome.errors, kErrorsBytes);
  outcome.exit_code = child.exit_code();
  if (watch.asked()) throw Error(ErrorKind::failed, "interrupted").hint("Run the same command again to go on.");
  return outcome;
}

}  // namespace

Outcome run_command(const Command& command, const std::stop_token& stop) {
  std::vector<std::string> arguments{command.program};
  arguments.insert(arguments.end(), command.arguments.begin(), command.arguments.end());
  Descriptor passwords;
  for (const auto& [key, value] : command.environment)
    if (key == kPassword) passwords = password_file(value);
  auto environment = child_environment(command, passwords);
  auto argv = pointers(arguments);
  auto envp = pointers(environment);
  Descriptor null_input(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!null_input.open()) throw system_error("opening /dev/null", errno);
  Pipe output = make_pipe(), errors = make_pipe(), status = make_pipe();
  ChildSetup setup{command.program.c_str(), argv.data(),        envp.data(),     output.write.get(), errors.write.get(),
                   null_input.get(),        status.write.get(), passwords.get(), ::getpid()};

  pid_t pid = ::fork();
  if (pid < 0) throw system_error("starting " + command.program, errno);
  if (pid == 0) become_program(setup);
  Child child(pid);
  output.write.close();
  errors.write.close();
  status.write.close();
  // The status pipe closes by itself when exec succeeds.
  int number = 0;
  if (::read(status.read.get(), &number, sizeof number) == sizeof number)
    throw system_error("starting " + command.program, number);
  return collect(child, std::move(output.read), std::move(errors.read), command.output_bytes, stop);
}

}  // namespace pgbaton::copy
