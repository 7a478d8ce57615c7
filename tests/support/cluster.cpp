#include "cluster.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <stdexcept>
#include <thread>

namespace pgbaton::testing {
namespace {

namespace fs = std::filesystem;

std::string cache_directory() {
  const char* given = std::getenv("PGBATON_TEST_POSTGRES");
  return given ? given : PGBATON_TEST_CACHE;
}

std::string find_bin(int major) {
  const auto debian = "/usr/lib/postgresql/" + std::to_string(major) + "/bin";
  if (fs::exists(debian + "/initdb")) return debian;
  const auto cached = cache_directory() + "/" + std::to_string(major) + "/bin";
  return fs::exists(cached + "/initdb") ? cached : "";
}

struct Lock {
  explicit Lock(const std::string& path) : fd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666)) {
    if (fd < 0 || flock(fd, LOCK_EX) != 0) throw std::runtime_error("cannot lock " + path);
  }
  ~Lock() { close(fd); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;
  int fd;
};

// Whether another user can reach the folder: every parent lets others pass.
bool reachable(fs::path path) {
  for (path = fs::canonical(path); path != path.root_path(); path = path.parent_path()) {
    if ((fs::status(path).permissions() & fs::perms::others_exec) == fs::perms::none) return false;
  }
  return true;
}

// Server binaries where the server's user can run them: the cache itself, or a copy when that lies in a closed home.
std::string usable_bin(int major) {
  const auto bin = find_bin(major);
  if (bin.empty()) {
    throw std::runtime_error("no server of major " + std::to_string(major) + ": run scripts/postgres " +
                             std::to_string(major));
  }
  if (geteuid() != 0 || reachable(bin)) return bin;
  const auto copy = shared_directory() + "/postgres-" + std::to_string(major);
  const Lock lock(copy + ".lock");
  if (!fs::exists(copy)) {
    run_checked({.arguments = {"cp", "-a", fs::path(bin).parent_path(), copy + ".new"}});
    fs::rename(copy + ".new", copy);
  }
  return copy + "/bin";
}

ProcessOptions server_command(const std::string& bin, std::vector<std::string> arguments) {
  arguments[0] = bin + "/" + arguments[0];
  ProcessOptions options{.arguments = std::move(arguments), .as_postgres = true};
  options.environment = {{"LC_ALL", "C.UTF-8"}};
  if (!bin.starts_with("/usr/")) options.environment.emplace_back("LD_LIBRARY_PATH", bin + "/../lib");
  return options;
}

void run_initdb(const std::string& bin, const std::string& data, const std::string& directory) {
  auto initdb = server_command(
      bin, {"initdb", "-D", data, "-U", "postgres", "--no-sync", "--locale=C.UTF-8", "-E", "UTF8", "-A", "trust"});
  initdb.directory = directory;
  run_checked(initdb);
}

void copy_files(const std::string& from, const std::string& to) {
  run_checked({.arguments = {"cp", "-a", "--reflink=auto", from, to}, .as_postgres = true});
}

// Data folder made by initdb, once for all processes; its name holds the exact version.
std::string ensure_template(int major, const std::string& bin) {
  const auto stamp = std::to_string(fs::last_write_time(bin + "/postgres").time_since_epoch().count());
  const auto path = shared_directory() + "/template-" + std::to_string(major) + "-" + stamp;
  if (fs::exists(path)) return path;
  const Lock lock(shared_directory() + "/template.lock");
  if (fs::exists(path)) return path;
  const auto work = make_run_directory("initdb");
  run_initdb(bin, work + "/data", work);
  fs::rename(work + "/data", path);
  return path;
}

// Below the ephemeral range, so that a client's port cannot take it while the server is down.
int free_port() {
  static std::mt19937 random{std::random_device{}()};
  for (;;) {
    const int port = std::uniform_int_distribution<int>(20'000, 32'000)(random);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const bool free = bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
    close(fd);
    if (free) return port;
  }
}

std::string escape(const std::string& text) {
  std::string result;
  for (const char c : text) result.append(c == '\'' ? 2 : 1, c);
  return result;
}

void append_settings(const std::string& data, const std::vector<std::pair<std::string, std::string>>& settings) {
  std::ofstream out(data + "/postgresql.conf", std::ios::app);
  for (const auto& [name, value] : settings) out << name << " = '" << escape(value) << "'\n";
  out.flush();
  if (!out) throw std::runtime_error("cannot write " + data + "/postgresql.conf");
}

void write_server_file(const std::string& path, const std::string& text) {
  std::ofstream out(path);
  out << text;
  out.close();
  const auto [user, group] = server_account();
  if (!out || chown(path.c_str(), user, group) != 0) throw std::runtime_error("cannot write " + path);
}

struct ProcessState {
  int parent = 0;
  char state = 0;
};

ProcessState process_state(int pid) {
  const auto text = read_file("/proc/" + std::to_string(pid) + "/stat");
  ProcessState result;
  const auto end = text.rfind(')');  // the name before it may hold anything
  if (end != std::string::npos) std::istringstream(text.substr(end + 1)) >> result.state >> result.parent;
  return result;
}

std::vector<int> children_of(int pid) {
  std::vector<int> result;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator("/proc", ignored)) {
    const int candidate = std::atoi(entry.path().filename().c_str());
    if (candidate > 0 && process_state(candidate).parent == pid) result.push_back(candidate);
  }
  return result;
}

bool alive(int pid) {
  const auto state = process_state(pid).state;
  return state != 0 && state != 'Z' && state != 'X';
}

}  // namespace

Cluster::Cluster(const ClusterOptions& options) : major_(options.major) {
  const auto bin = usable_bin(major_);
  directory_ = make_run_directory("pg" + std::to_string(major_));
  if (options.own_identity) {
    run_initdb(bin, data_directory(), directory_);
  } else {
    copy_files(ensure_template(major_, bin), data_directory());
  }
  port_ = free_port();
  append_settings(data_directory(), {{"wal_level", "logical"},
                                     {"max_wal_senders", "20"},
                                     {"max_replication_slots", "20"},
                                     {"max_prepared_transactions", "10"},
                                     {"max_connections", "100"},
                                     {"shared_buffers", "64MB"},
                                     {"fsync", "off"},  // crash() kills processes, never the system
                                     {"listen_addresses", "127.0.0.1"},
                                     {"unix_socket_directories", directory_},
                                     {"port", std::to_string(port_)},
                                     {"jit", "off"},
                                     {"log_line_prefix", "%m [%p] %a "},
                                     {"log_timezone", "UTC"},
                                     {"max_wal_size", "4GB"}});
  append_settings(data_directory(), options.settings);
  if (options.start) start();
}

Cluster::Cluster(const Cluster& primary, const ClusterOptions& options) : major_(primary.major()) {
  directory_ = make_run_directory("pg" + std::to_string(major_) + "-standby");
  port_ = free_port();
  auto session = primary.session();
  const bool new_names = major_ >= 15;
  session.query(new_names ? "select pg_backup_start('test', true)" : "select pg_start_backup('test', true, false)");
  copy_files(primary.data_directory(), data_directory());
  const auto label = session.scalar(new_names ? "select labelfile from pg_backup_stop(false)"
                                              : "select labelfile from pg_stop_backup(false, false)");
  fs::remove(data_directory() + "/postmaster.pid");
  for (const auto& slot : fs::directory_iterator(data_directory() + "/pg_replslot")) fs::remove_all(slot);
  write_server_file(data_directory() + "/backup_label", label);
  write_server_file(data_directory() + "/standby.signal", "");
  append_settings(data_directory(), {{"port", std::to_string(port_)},
                                     {"unix_socket_directories", directory_},
                                     {"primary_conninfo", primary.conninfo()}});
  append_settings(data_directory(), options.settings);
  if (options.start) start();
}

Cluster::~Cluster() {
  try {
    if (running()) stop(StopMode::immediate);
  } catch (...) {  // Process's own destructor kills what is left
  }
  process_ = Process();
  if (std::getenv("PGBATON_TEST_KEEP") == nullptr) remove_tree(directory_);
}

bool Cluster::available(int major) {
  return !find_bin(major).empty();
}
std::string Cluster::bin_directory(int major) {
  return usable_bin(major);
}

void Cluster::start() {
  launch();
  wait_ready();
}

void Cluster::launch() {
  if (running()) throw std::logic_error("the server runs already");
  auto command = server_command(usable_bin(major_), {"postgres", "-D", data_directory()});
  command.stdout_file = command.stderr_file = directory_ + "/log";
  command.directory = directory_;
  command.death_signal = SIGQUIT;  // an immediate shutdown takes the children along
  process_ = Process(command);
}

void Cluster::wait_ready() {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  const auto target = conninfo() + " connect_timeout=5";
  while (PQping(target.c_str()) != PQPING_OK) {
    if (!running() || std::chrono::steady_clock::now() > deadline) {
      throw std::runtime_error("server did not start:\n" + log());
    }
    std::this_thread::sleep_for(Milliseconds(10));
  }
}

void Cluster::stop(StopMode mode) {
  process_.kill(mode == StopMode::fast ? SIGINT : SIGQUIT);
  if (!process_.wait(Milliseconds(30'000))) throw std::runtime_error("server did not stop:\n" + log());
}

void Cluster::restart(StopMode mode) {
  stop(mode);
  start();
}

void Cluster::crash() {
  const int postmaster = process_.pid();
  process_.kill(SIGSTOP);  // so that it forks no further child while we look
  const auto children = children_of(postmaster);
  process_.kill(SIGKILL);
  for (const int child : children) ::kill(child, SIGKILL);
  process_.wait(Milliseconds(10'000));
  for (const int child : children) {
    while (alive(child)) std::this_thread::sleep_for(Milliseconds(2));
  }
}

void Cluster::set(const std::string& name, const std::string& value) {
  append_settings(data_directory(), {{name, value}});
}

void Cluster::reload() {
  process_.kill(SIGHUP);
}

void Cluster::promote() {
  if (scalar("select pg_promote(true, 60)") != "t") throw std::runtime_error("not promoted:\n" + log());
}

std::string Cluster::save_files() {
  const auto saved = directory_ + "/saved-" + std::to_string(++saved_);
  copy_files(data_directory(), saved);
  return saved;
}

void Cluster::restore_files(const std::string& saved) {
  const auto settings = read_file(data_directory() + "/postgresql.conf");
  fs::remove_all(data_directory());
  copy_files(saved, data_directory());
  write_server_file(data_directory() + "/postgresql.conf", settings);
}

std::string Cluster::conninfo(const std::string& database, const std::string& user) const {
  std::string quoted;
  for (const char c : database) quoted += c == '\'' || c == '\\' ? std::string{'\\', c} : std::string{c};
  const bool plain = database.find_first_of(" \t\n'\\") == std::string::npos;
  return "host=127.0.0.1 port=" + std::to_string(port_) + " user=" + user +
         " dbname=" + (plain ? database : "'" + quoted + "'");
}

std::string Cluster::socket_conninfo(const std::string& database) const {
  return "host=" + directory_ + " port=" + std::to_string(port_) + " user=postgres dbname=" + database;
}

Rows Cluster::query(const std::string& sql, const std::string& database) const {
  return session(database).query(sql);
}
std::string Cluster::scalar(const std::string& sql, const std::string& database) const {
  return session(database).scalar(sql);
}
long long Cluster::number(const std::string& sql, const std::string& database) const {
  return session(database).number(sql);
}
long long Cluster::exec(const std::string& sql, const std::string& database) const {
  return session(database).exec(sql);
}

bool Cluster::wait_until(const std::string& sql, const std::string& expected, Milliseconds timeout,
                         const std::string& database) const {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  auto connection = session(database);
  for (;;) {
    if (connection.scalar(sql) == expected) return true;
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(Milliseconds(20));
  }
}

}  // namespace pgbaton::testing
