#include "process.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <thread>

extern char** environ;

namespace pgbaton::testing {
namespace {

std::string look_up(const std::string& program) {
  if (program.find('/') != std::string::npos) return program;
  std::istringstream path(std::getenv("PATH") ? std::getenv("PATH") : "/usr/bin:/bin");
  for (std::string folder; std::getline(path, folder, ':');) {
    if (access((folder + "/" + program).c_str(), X_OK) == 0) return folder + "/" + program;
  }
  throw std::runtime_error("program not found in PATH: " + program);
}

std::vector<std::string> build_environment(const std::vector<std::pair<std::string, std::string>>& added) {
  std::vector<std::string> result;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    std::string_view text(*entry);
    const auto name = text.substr(0, text.find('='));
    bool keep = !(name.starts_with("PG") && !name.starts_with("PGBATON_TEST"));
    for (const auto& [key, value] : added) keep = keep && name != key;
    if (keep) result.emplace_back(text);
  }
  for (const auto& [key, value] : added) result.push_back(key + "=" + value);
  return result;
}

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> result;
  for (auto& s : strings) result.push_back(s.data());
  result.push_back(nullptr);
  return result;
}

// Between fork and exec: async-signal-safe calls only, because other threads of the test may hold any lock.
struct Child {
  const char *program, *out, *err, *directory;
  char* const* argv;
  char* const* envp;
  bool same_file, drop;
  unsigned uid, gid;
  int death_signal;

  [[noreturn]] void run() const {
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    const int in_fd = open("/dev/null", O_RDONLY);
    const int flags = O_WRONLY | O_CREAT | O_APPEND | (same_file ? 0 : O_TRUNC);
    const int out_fd = open(out, flags, 0666), err_fd = same_file ? out_fd : open(err, flags, 0666);
    if (in_fd < 0 || out_fd < 0 || err_fd < 0) _exit(126);
    dup2(in_fd, 0);
    dup2(out_fd, 1);
    dup2(err_fd, 2);
    if (drop && (setgroups(0, nullptr) != 0 || setgid(gid) != 0 || setuid(uid) != 0)) _exit(125);
    prctl(PR_SET_PDEATHSIG, death_signal);  // after setuid, which clears it
    if (*directory != 0 && chdir(directory) != 0) _exit(124);
    execve(program, argv, envp);
    _exit(127);
  }
};

int decode(int status) {
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void sweep(const std::string& shared) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(shared, ignored)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with("run-")) continue;
    const int pid = std::atoi(name.c_str() + 4);
    if (pid > 0 && ::kill(pid, 0) != 0 && errno == ESRCH) remove_tree(entry.path());
  }
}

struct RunFolder {  // removed when the process ends normally
  std::string path;
  RunFolder() {
    const auto shared = shared_directory();
    sweep(shared);
    path = shared + "/run-" + std::to_string(getpid());
    remove_tree(path);
    std::filesystem::create_directories(path);
    chmod(path.c_str(), 0777);
  }
  ~RunFolder() {
    if (std::getenv("PGBATON_TEST_KEEP") == nullptr) remove_tree(path);
  }
};

}  // namespace

Process::Process(const ProcessOptions& options) {
  auto arguments = options.arguments;
  const auto program = look_up(arguments.at(0));
  auto environment = build_environment(options.environment);
  const auto argv = pointers(arguments), envp = pointers(environment);
  const auto [uid, gid] = server_account();
  const Child child{program.c_str(),
                    options.stdout_file.c_str(),
                    options.stderr_file.c_str(),
                    options.directory.c_str(),
                    argv.data(),
                    envp.data(),
                    options.stdout_file == options.stderr_file,
                    options.as_postgres && geteuid() == 0,
                    uid,
                    gid,
                    options.death_signal};
  pid_ = fork();
  if (pid_ < 0) throw std::runtime_error("fork failed");
  if (pid_ == 0) child.run();
}

Process& Process::operator=(Process&& other) noexcept {
  destroy();
  pid_ = std::exchange(other.pid_, -1);
  status_ = other.status_;
  return *this;
}

Process::~Process() {
  destroy();
}

void Process::destroy() noexcept {
  if (pid_ > 0 && !status_) {
    ::kill(pid_, SIGKILL);
    int ignored = 0;
    while (waitpid(pid_, &ignored, 0) < 0 && errno == EINTR) {
    }
  }
  pid_ = -1;
  status_.reset();
}

bool Process::running() {
  return pid_ > 0 && !wait(Milliseconds(0));
}

void Process::kill(int signal) const noexcept {
  if (pid_ > 0 && !status_) ::kill(pid_, signal);
}

std::optional<int> Process::wait(Milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (pid_ > 0 && !status_) {
    int status = 0;
    if (waitpid(pid_, &status, WNOHANG) == pid_) {
      status_ = decode(status);
    } else if (std::chrono::steady_clock::now() >= deadline) {
      return std::nullopt;
    } else {
      std::this_thread::sleep_for(Milliseconds(5));
    }
  }
  return status_;
}

void run_checked(ProcessOptions options, Milliseconds timeout) {
  if (options.stdout_file == "/dev/null") {
    options.stdout_file = options.stderr_file = make_run_directory("out") + "/output";
  }
  Process process(options);
  const auto code = process.wait(timeout);
  if (code == 0) return;
  std::string command;
  for (const auto& a : options.arguments) command += a + " ";
  throw std::runtime_error(command + (code ? "ended with " + std::to_string(*code) : "did not end in time") + "\n" +
                           read_file(options.stderr_file));
}

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

std::string read_test_data(const std::string& name) {
  const auto text = read_file(std::string(PGBATON_TEST_DATA) + "/" + name);
  if (text.empty()) throw std::runtime_error("no test data " + name);
  return text;
}

std::string shared_directory() {
  // Not the build folder: user postgres often may not enter the home of the user who builds.
  const char* base = std::getenv("PGBATON_TEST_DIR");
  const auto path = base ? std::string(base) : "/tmp/pgbaton-test-" + std::to_string(geteuid());
  std::filesystem::create_directories(path);
  chmod(path.c_str(), 0777);
  return path;
}

std::string make_run_directory(const std::string& stem) {
  static const RunFolder folder;
  static std::atomic<int> number{0};
  const auto path = folder.path + "/" + stem + "-" + std::to_string(++number);
  std::filesystem::create_directory(path);
  const auto [uid, gid] = server_account();
  if (chown(path.c_str(), uid, gid) != 0) throw std::runtime_error("cannot hand " + path + " to the server's user");
  chmod(path.c_str(), 0777);
  return path;
}

void remove_tree(const std::string& path) noexcept {
  std::error_code ignored;
  std::filesystem::remove_all(path, ignored);
}

// Asked once: getpwnam's answer is one buffer for all threads.
std::pair<unsigned, unsigned> server_account() {
  static const auto account = []() -> std::pair<unsigned, unsigned> {
    if (geteuid() != 0) return {geteuid(), getegid()};
    const passwd* entry = getpwnam("postgres");
    if (entry == nullptr) throw std::runtime_error("no user postgres: run scripts/setup");
    return {entry->pw_uid, entry->pw_gid};
  }();
  return account;
}

}  // namespace pgbaton::testing
