#include "shell.hpp"

#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <stdexcept>

namespace pgbaton::testing {

Shell::Shell(const std::vector<std::string>& arguments) {
  winsize size{50, 200, 0, 0};
  std::vector<char*> words;
  for (const auto& argument : arguments) words.push_back(const_cast<char*>(argument.c_str()));
  words.push_back(nullptr);
  pid_ = forkpty(&master_, nullptr, nullptr, &size);
  if (pid_ < 0) throw std::runtime_error("forkpty failed");
  if (pid_ == 0) {
    setenv("TERM", "dumb", 1);
    setenv("LC_ALL", "C.UTF-8", 1);
    execvp(words[0], words.data());
    _exit(127);
  }
}

Shell::~Shell() {
  ::kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  close(master_);
}

void Shell::type(const std::string& keys) {
  if (write(master_, keys.data(), keys.size()) != static_cast<ssize_t>(keys.size()))
    throw std::runtime_error("the shell takes no keys");
}

std::string Shell::wait_for(const std::string& text, Milliseconds timeout) {
  std::string seen;
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (seen.find(text) == std::string::npos && std::chrono::steady_clock::now() < deadline) {
    pollfd ready{master_, POLLIN, 0};
    if (poll(&ready, 1, 100) <= 0) continue;
    char buffer[4096];
    const auto count = read(master_, buffer, sizeof buffer);
    if (count <= 0) break;
    seen.append(buffer, static_cast<std::size_t>(count));
  }
  return seen;
}

std::string output_of(const std::vector<std::string>& arguments,
                      const std::vector<std::pair<std::string, std::string>>& environment) {
  ProcessOptions options;
  options.arguments = arguments;
  options.environment = environment;
  options.directory = make_run_directory("command");
  options.stdout_file = options.stderr_file = options.directory + "/out";
  Process process(options);
  const auto code = process.wait(Milliseconds(120'000));
  auto text = read_file(options.stdout_file);
  if (code != 0)
    throw std::runtime_error(arguments.front() + " ended with " + std::to_string(code.value_or(-1)) + ": " + text);
  return text;
}

}  // namespace pgbaton::testing
