#include "faults.hpp"

#include <signal.h>

#include <iomanip>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

namespace pgbaton::testing {
namespace {

// A bit of everything that has an own way through the tool: keys, foreign keys, no key, partitions, views, sequences.
constexpr const char* kSchema = R"(
create table orders (id bigint primary key, n int not null default 0, pad text);
create index orders_n on orders (n);
create table items (id bigint generated always as identity primary key, order_id bigint references orders, v text);
create table log (at timestamptz default now(), what text);
create table part (id bigint, kind int, v text, primary key (id, kind)) partition by list (kind);
create table part_1 partition of part for values in (1);
create table part_2 partition of part for values in (2);
create view busy as select * from orders where n > 0;
create table marker (id bigint generated always as identity primary key);
insert into orders select i, 0, repeat(md5(i::text), 20) from generate_series(1, 2000) i;
insert into items (order_id, v) select 1 + i % 2000, md5(i::text) from generate_series(1, 500) i;
insert into log (what) select 'old ' || i from generate_series(1, 300) i;
insert into part select i, 1 + i % 2, md5(i::text) from generate_series(1, 400) i)";

std::string write_once(long long round) {
  const auto id = std::to_string(1'000'000 + round), old = std::to_string(1 + round * 7 % 2000);
  return "begin; insert into orders values (" + id + ", 1, 'new'); update orders set n = n + 1 where id = " + old +
         "; insert into items (order_id, v) values (" + old + ", 'x'); insert into log (what) values ('" + id +
         "'); insert into part values (" + id + ", 1 + " + id +
         " % 2, 'p'); update part set v = v || '.' where id = " + std::to_string(1 + round % 400) +
         "; delete from orders where id = " + std::to_string(1'000'000 + round - 5) + "; commit";
}

char state_of(int pid) {
  const auto text = read_file("/proc/" + std::to_string(pid) + "/stat");
  const auto end = text.rfind(')');
  return end == std::string::npos || end + 2 >= text.size() ? '?' : text[end + 2];
}

const char* name_of(Harm harm) {
  switch (harm) {
    case Harm::kill:
      return "tool killed";
    case Harm::error:
      return "passing error";
    case Harm::stop:
      return "lasting error";
    case Harm::source_down:
      return "source down";
    case Harm::target_down:
      return "target down";
    case Harm::source_backend:
      return "source backend";
    case Harm::target_backend:
      return "target backend";
    case Harm::cut_source:
      return "source cut";
    case Harm::cut_target:
      return "target cut";
  }
  return "";
}

const char* action_of(Harm harm) {
  switch (harm) {
    case Harm::kill:
      return "kill";
    case Harm::error:
      return "error";
    case Harm::stop:
      return "stop";
    case Harm::source_down:
    case Harm::target_down:
    case Harm::source_backend:
    case Harm::target_backend:
    case Harm::cut_source:
    case Harm::cut_target:
      return "freeze";
  }
  return "";
}

const char* name_of(Command command) {
  switch (command) {
    case Command::clone:
      return "clone";
    case Command::follow:
    case Command::huge_follow:
      return "follow";
    case Command::finish:
      return "finish";
    case Command::drop:
      return "drop";
  }
  return "";
}

std::string failpoints(const FaultRow& row) {
  const std::string point = row.point;
  const auto at = point.find('@');
  // The first time only: a run that gets over it must not meet it again.
  const auto nth = at == point.npos ? "@1" : point.substr(at);
  return point.substr(0, at) + "=" + action_of(row.harm) + nth;
}

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const auto& line : lines) text += (text.empty() ? "" : "; ") + line;
  return text;
}

bool is_one_of(const std::string& word, const std::string& list) {
  return list.empty() || ("|" + list + "|").find("|" + word + "|") != std::string::npos;
}

}  // namespace

bool wait_frozen(Tool& tool, Milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (std::chrono::steady_clock::now() < deadline && tool.running()) {
    if (state_of(tool.pid()) == 'T') return true;
    std::this_thread::sleep_for(Milliseconds(5));
  }
  return false;
}

PatientWriter::PatientWriter(std::string conninfo) : conninfo_(std::move(conninfo)), thread_([this] { run(); }) {}

void PatientWriter::stop() {
  stop_ = true;
  if (thread_.joinable()) thread_.join();
}

void PatientWriter::run() {
  for (std::unique_ptr<Session> session; !stop_; std::this_thread::sleep_for(Milliseconds(5))) {
    try {
      if (!session) session = std::make_unique<Session>(conninfo_);
      session->exec(write_once(++done_));
    } catch (const SqlError&) {  // the server is away; a round that was not committed is simply missing
      session.reset();
    }
  }
}

void FaultTable::SetUp() {
  PairTest::SetUp();
  source().exec("create database base");
  source().exec(kSchema, "base");
  source_proxy_ = std::make_unique<Proxy>(std::vector<int>{source().port()});
  target_proxy_ = std::make_unique<Proxy>(std::vector<int>{target().port()});
}

void FaultTable::TearDown() {
  writer_.reset();
  source_proxy_.reset();
  target_proxy_.reset();
  PairTest::TearDown();
}

Arguments FaultTable::line(const std::string& command, bool through_proxy, const Arguments& more) const {
  Arguments result{command, "--source",
                   through_proxy ? source_proxy_->conninfo(database_) : source_->conninfo(database_), "--target",
                   through_proxy ? target_proxy_->conninfo(database_) : target_->conninfo(database_)};
  result.insert(result.end(), more.begin(), more.end());
  return result;
}

void FaultTable::prepare(Command command) {
  database_ = "row" + std::to_string(++rows_);
  source().exec("create database " + database_ + " template base");
  target().exec("create database " + database_);
  // drop drains nothing, so nothing may be under way.
  if (command != Command::drop) writer_ = std::make_unique<PatientWriter>(source().conninfo(database_));
  if (command == Command::clone) return;
  const auto clone = Tool::run(line("clone", false, {"--until", "caught-up"}));
  ASSERT_EQ(clone.code, 0) << clone;
  if (command == Command::finish) writer_->stop();
}

std::string FaultTable::sessions(const std::string& role) const {
  return "from pg_stat_activity where datname = '" + database_ + "' and application_name like 'pgbaton/%/" + role + "'";
}

// The tool stands still meanwhile, so what has ended does not come back; what has not would change the outcome: a
// holder that still lives hands its snapshot out.
void FaultTable::wait_gone(Cluster& server, const std::string& role) {
  EXPECT_TRUE(server.wait_until("select count(*) " + sessions(role), "0", Milliseconds(30'000)))
      << "sessions with role " << role << " do not end";
}

// More than once: a session that was about to begin when the tool stood still shows itself later.
void FaultTable::terminate(Cluster& server, const std::string& role) {
  const auto end_all = "select count(pg_terminate_backend(pid)) " + sessions(role);
  EXPECT_GT(server.number(end_all), 0) << "no session with role " << role;
  EXPECT_TRUE(server.wait_until(end_all, "0", Milliseconds(30'000))) << "sessions with role " << role << " do not end";
}

void FaultTable::cut(Proxy& proxy, Cluster& server) {
  proxy.cut();
  wait_gone(server, "%");
}

void FaultTable::do_harm(const FaultRow& row) {
  switch (row.harm) {
    case Harm::kill:
    case Harm::error:
    case Harm::stop:
      return;
    case Harm::source_down:
      return source().restart(StopMode::immediate);
    case Harm::target_down:
      return target().restart(StopMode::immediate);
    case Harm::source_backend:
      return terminate(source(), row.role);
    case Harm::target_backend:
      return terminate(target(), row.role);
    case Harm::cut_source:
      return cut(*source_proxy_, source());
    case Harm::cut_target:
      return cut(*target_proxy_, target());
  }
}

// An open-ended stream must come back by itself and end in good order when it is asked to.
std::string FaultTable::follow_on(Tool& tool) {
  const auto id = source().scalar("insert into marker default values returning id", database_);
  const auto there =
      target().wait_until("select count(*) from marker where id = " + id, "1", Milliseconds(40'000), database_);
  tool.kill(SIGTERM);
  return there ? "" : "the stream did not come back";
}

ToolResult FaultTable::meet_fault(Command command, const FaultRow& row) {
  const bool proxied = row.harm == Harm::cut_source || row.harm == Harm::cut_target;
  const bool open_ended = command == Command::follow || command == Command::huge_follow;
  Arguments more;
  if (command == Command::clone) more = {"--until", "caught-up", "--jobs", "2"};
  Tool tool(line(name_of(command), proxied, more), {{"PGBATON_FAILPOINTS", failpoints(row)}});
  if (command == Command::huge_follow)
    source().exec("insert into orders select i, 2, 'huge' from generate_series(2000001, 2060000) i", database_);
  if (std::string_view(action_of(row.harm)) == "freeze") {
    if (wait_frozen(tool)) {
      do_harm(row);
      tool.kill(SIGCONT);
    } else {
      ADD_FAILURE() << "the failpoint was not met: " << tool.err();
    }
  }
  if (open_ended && row.code == 0) {
    tool.wait_for_stderr(row.says, Milliseconds(30'000));
    const auto problem = follow_on(tool);
    EXPECT_EQ(problem, "") << tool.err();
  }
  return tool.wait(Milliseconds(60'000));
}

std::string FaultTable::start_again(Command command) {
  Arguments more;
  if (command != Command::finish && command != Command::drop) more = {"--until", "caught-up"};
  const auto again = Tool::run(line(name_of(command), false, more), Milliseconds(60'000));
  EXPECT_EQ(again.code, 0) << "started again: " << again;
  return std::to_string(again.code);
}

std::string FaultTable::end_state(Command command) {
  if (writer_) writer_->stop();
  if (command != Command::finish && command != Command::drop) {
    const auto finish = Tool::run(line("finish", false), Milliseconds(60'000));
    EXPECT_EQ(finish.code, 0) << finish;
  }
  const auto differing = differences(source().conninfo(database_), target().conninfo(database_), {.max_lines = 4});
  auto left = leftovers(source().conninfo(database_));
  for (auto& line : target_leftovers(target().conninfo(database_))) left.push_back(std::move(line));
  EXPECT_THAT(differing, ::testing::IsEmpty());
  EXPECT_THAT(left, ::testing::IsEmpty());
  return differing.empty() && left.empty() ? "equal, nothing left" : joined(differing) + " LEFT " + joined(left);
}

FaultTable::Outcome FaultTable::run_row(Command command, const FaultRow& row) {
  Outcome outcome;
  prepare(command);
  outcome.first = meet_fault(command, row);
  EXPECT_EQ(outcome.first.code, row.code) << outcome.first;
  EXPECT_TRUE(std::regex_search(outcome.first.err, std::regex(row.says))) << row.says << " is not in\n"
                                                                          << outcome.first;
  const bool failed = outcome.first.code != 0 && outcome.first.code != 137;
  EXPECT_TRUE(!failed || outcome.first.err.find("HINT: ") != std::string::npos) << outcome.first;
  const auto status = Tool::run(line("status", false, {"--json"}), Milliseconds(30'000));
  EXPECT_EQ(status.code, 0) << status;
  outcome.phase = nlohmann::json::parse(status.out, nullptr, false).value("phase", "?");
  EXPECT_TRUE(is_one_of(outcome.phase, row.phase)) << outcome.phase << " is not one of " << row.phase;
  outcome.second = outcome.first.code == 0 ? "-" : start_again(command);
  outcome.end = end_state(command);
  source().exec("drop database " + database_ + " with (force)");
  target().exec("drop database " + database_ + " with (force)");
  return outcome;
}

void FaultTable::play(Command command, const std::vector<FaultRow>& rows) {
  std::ostringstream table;
  table << std::left << std::setw(9) << "command" << std::setw(25) << "failpoint" << std::setw(16) << "what happens"
        << std::setw(12) << "role" << std::setw(6) << "exit" << std::setw(11) << "status" << std::setw(7) << "again"
        << std::setw(8) << "ms"
        << "end\n";
  for (const auto& row : rows) {
    SCOPED_TRACE(std::string(name_of(command)) + " " + row.point + " " + name_of(row.harm) + " " + row.role);
    const auto started = std::chrono::steady_clock::now();
    const auto outcome = run_row(command, row);
    const auto elapsed = std::chrono::duration_cast<Milliseconds>(std::chrono::steady_clock::now() - started).count();
    table << std::setw(9) << name_of(command) << std::setw(25) << row.point << std::setw(16) << name_of(row.harm)
          << std::setw(12) << row.role << std::setw(6) << outcome.first.code << std::setw(11) << outcome.phase
          << std::setw(7) << outcome.second << std::setw(8) << elapsed << outcome.end << "\n";
    writer_.reset();
    if (::testing::Test::HasFatalFailure()) break;
  }
  std::cout << table.str() << rows.size() << " faults" << std::endl;
}

}  // namespace pgbaton::testing
