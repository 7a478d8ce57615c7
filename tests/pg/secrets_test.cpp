// Nothing secret in logs, errors, process lists, state, events or documents; and nobody's names are
// taken for SQL: hostile identifiers through every command.
#include <dirent.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <set>
#include <thread>

#include "pg/check_fixture.hpp"

namespace pgbaton::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr const char* kMarked = "m4rked-p4ssw0rd";

// cmdline and environ of the tool and of everything below it, looked at again and again while it lives.
class ProcessList {
 public:
  explicit ProcessList(int root) : root_(root), thread_([this](const std::stop_token& stop) { run(stop); }) {}
  // What any of them showed; the tool's own environment is what its user gave it.
  std::string text() {
    thread_.request_stop();
    if (thread_.joinable()) thread_.join();
    return text_ + own_;
  }

 private:
  static int parent_of(const std::string& pid) {
    const auto stat = read_file("/proc/" + pid + "/stat");
    const auto end = stat.rfind(')');
    return end == std::string::npos ? 0 : std::atoi(stat.c_str() + end + 4);
  }
  bool is_ours(std::string pid) const {
    for (int i = 0; i < 4 && pid != "0"; ++i) {
      const int parent = parent_of(pid);
      if (parent == root_) return true;
      pid = std::to_string(parent);
    }
    return false;
  }
  void look() {
    const std::unique_ptr<DIR, int (*)(DIR*)> all(opendir("/proc"), &closedir);
    for (const auto* entry = readdir(all.get()); entry != nullptr; entry = readdir(all.get())) {
      const std::string pid = entry->d_name;
      if (pid.find_first_not_of("0123456789") != std::string::npos || !is_ours(pid)) continue;
      const auto command = read_file("/proc/" + pid + "/cmdline");
      if (command.empty() || command.starts_with(Tool::path())) continue;
      if (seen_.insert(pid + command).second) text_ += command + "\n" + read_file("/proc/" + pid + "/environ") + "\n";
    }
    // The kernel shows the command line as it was given until the tool has read it, its first milliseconds.
    if (const auto own = read_file("/proc/" + std::to_string(root_) + "/cmdline"); !own.empty() && ++looks_ > 50)
      own_ = own;
  }
  void run(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      look();
      std::this_thread::sleep_for(Milliseconds(10));
    }
  }

  const int root_;
  int looks_ = 0;
  std::string text_, own_;
  std::set<std::string> seen_;
  std::jthread thread_;
};

class SecretsTest : public PairTest {
 protected:
  static std::string marked(const std::string& conninfo) {
    return conninfo + " password=" + kMarked + " sslpassword=" + kMarked;
  }
  // Every value of every column of schema pgbaton.
  std::string all_state() {
    std::string text;
    for (const auto& table : target().query("select format('%I.%I', schemaname, tablename) from pg_tables where "
                                            "schemaname = 'pgbaton' order by 1"))
      text += target().scalar("select coalesce(string_agg(t::text, e'\\n'), '') from " + *table[0] + " t") + "\n";
    return text;
  }
};

TEST_F(SecretsTest, AMarkedPasswordIsNowhere) {
  create_filled("t", 200);
  source().exec("create index on t (n)");
  const auto events = source().directory() + "/events.jsonl";
  const Environment environment{{"PGBATON_TARGET", marked(target().conninfo())}};
  const Arguments common{"--source", marked(source().conninfo()), "--log-level", "debug", "--events", events};
  std::string all;
  const auto run_one = [&](const std::string& command, const Arguments& more, int code) {
    Arguments arguments{command};
    arguments.insert(arguments.end(), common.begin(), common.end());
    arguments.insert(arguments.end(), more.begin(), more.end());
    Tool tool(arguments, environment);
    ProcessList processes(tool.pid());
    const auto result = tool.wait(Milliseconds(90'000));
    EXPECT_EQ(result.code, code) << result;
    const auto shown = processes.text();
    EXPECT_THAT(shown, Not(HasSubstr(kMarked))) << command;
    if (command == "clone") {
      EXPECT_THAT(shown, AllOf(HasSubstr("pg_dump"), HasSubstr("PGPASSFILE="))) << shown;
    }
    all += result.out + result.err;
  };
  run_one("check", {"--json"}, 0);
  run_one("clone", {"--until", "caught-up"}, 0);
  run_one("follow", {"--until", "caught-up", "--json", "--log-format", "json"}, 0);
  run_one("status", {"--json"}, 0);
  run_one("verify", {"--json"}, 0);
  // Errors are kept in the state; this one comes with a connection string that cannot be used.
  run_one("follow", {"--until", "caught-up", "--target", marked(target().conninfo("no_such_database"))}, 1);
  run_one("follow", {"--target", "postgres://u:" + std::string(kMarked) + "@h:port/d"}, 2);
  target().exec("alter table t rename to was");
  source().exec("update t set n = 1 where id = 1");
  run_one("follow", {"--until", "caught-up"}, 8);
  run_one("status", {}, 0);
  run_one("drop", {"--json"}, 0);
  EXPECT_THAT(all, Not(HasSubstr(kMarked)));
  EXPECT_THAT(read_file(events), AllOf(HasSubstr("clone_started"), Not(HasSubstr(kMarked))));
}

TEST_F(SecretsTest, TheStateHoldsNoSecretAndIsClosedToOthers) {
  create_filled("t", 50);
  source().exec("create table w (id int primary key)");
  // What new tables and schemas of the role are open to by default must not hold for ours.
  target().exec(
      "create role reader login; alter default privileges grant all on tables to reader, public; alter default "
      "privileges grant all on schemas to reader; alter default privileges grant all on functions to public");
  const auto cloned = run("clone", {"--until", "caught-up", "--guard", "ledger", "--tombstones", "always"},
                          {{"PGBATON_TARGET", marked(target().conninfo())}});
  ASSERT_EQ(cloned.code, 0) << cloned;
  EXPECT_THAT(all_state(), AllOf(HasSubstr("pgbaton"), Not(HasSubstr(kMarked))));
  Session reader(target().conninfo("postgres", "reader"));
  for (const auto& table :
       target().query("select format('%I.%I', schemaname, tablename) from pg_tables where schemaname "
                      "= 'pgbaton' and tablename !~ '^ledger|^generation$'"))
    for (const std::string& statement : {"delete from " + *table[0], "truncate " + *table[0],
                                         "create trigger x before insert on " + *table[0] +
                                             " for each row execute function suppress_redundant_updates_trigger()"})
      EXPECT_THROW(reader.exec(statement), SqlError) << statement;
  EXPECT_THROW(reader.exec("create table pgbaton.mine ()"), SqlError);
  ASSERT_EQ(run("drop").code, 0);

  // A schema that somebody else made could run code as us: not even `status` reads it.
  target().exec(
      "create role mallory login; create schema pgbaton authorization mallory; set role mallory; create table "
      "pgbaton.meta (schema_version int); create function pgbaton.evil() returns text language plpgsql as $$ begin "
      "alter role mallory superuser; return ''; end $$; create view pgbaton.replica as select pgbaton.evil() as name");
  for (const auto* command : {"status", "wait", "clone", "follow", "finish"}) {
    const auto result = run(command);
    EXPECT_EQ(result.code, 3) << result;
    EXPECT_THAT(result.err, AllOf(HasSubstr("mallory"), HasSubstr("HINT: "))) << command;
  }
  EXPECT_EQ(target().scalar("select rolsuper from pg_roles where rolname = 'mallory'"), "f");
}

// Every kind of name that quoting could miss, of databases, roles, schemas, tables, columns, publications' tables.
TEST_F(SecretsTest, HostileNamesGoThroughEveryCommand) {
  const std::string evil = R"sql("; drop table ok; --)sql";
  const std::vector<std::string> names{
      evil,     "new\nline",   "tab\there",          "it's", "back\\slash", "\"quoted\"", "$1", "$$",
      "%s%n{}", "Кириллица ☃", std::string(63, 'x'), "a.b",  " lead",       "-- comment"};
  const auto quoted = [](const std::string& name) { return quote_identifier(name); };
  source().exec("create database " + quoted(evil));
  target().exec("create database " + quoted(evil));
  const auto database = evil;
  std::string make = "create table ok (id int primary key); create schema " + quoted(evil) + ";";
  for (const auto& name : names) {
    make += "create table " + quoted(evil) + "." + quoted(name) + " (" + quoted(name) + " int primary key, v text, " +
            quoted("c " + name.substr(0, 40)) + " text default 'd');";
    make += "insert into " + quoted(evil) + "." + quoted(name) + " select i, 'a' from generate_series(1, 20) i;";
  }
  make += "create table " + quoted(evil) + ".keyless (" + quoted(evil) + " text);";
  source().exec(make, database);
  const auto with = [&](const std::string& command, const Arguments& more) {
    Arguments all{command, "--source", source().conninfo(database), "--target", target().conninfo(database)};
    all.insert(all.end(), more.begin(), more.end());
    const auto result = Tool::run(all, Milliseconds(90'000));
    EXPECT_EQ(result.code, 0) << command << ": " << result;
    return result;
  };
  with("check", {});
  with("clone", {"--dry-run"});
  with("clone", {"--until", "caught-up"});
  for (const auto& name : names)
    source().exec("update " + quoted(evil) + "." + quoted(name) + " set v = 'b' where " + quoted(name) +
                      " % 3 = 0; delete from " + quoted(evil) + "." + quoted(name) + " where " + quoted(name) +
                      " = 5; insert into " + quoted(evil) + "." + quoted(name) + " values (100, 'n')",
                  database);
  with("follow", {"--until", "caught-up"});
  const auto document = Json::parse(with("status", {"--json"}).out);
  EXPECT_EQ(document.at("tables").size(), names.size() + 2);
  const auto table = quoted(evil) + "." + quoted("new\nline");
  target().exec("update " + table + " set v = 'damaged' where v = 'b'", database);
  with("verify", {"--repair", "--json"});
  with("resync", {table});
  with("sequences", {});
  source().exec("alter table " + table + " add column " + quoted("later " + evil) + " text default 'x'", database);
  source().exec("update " + table + " set v = 'c'", database);
  with("follow", {"--until", "caught-up", "--drift", "add-columns"});
  with("verify", {});
  with("finish", {});
  EXPECT_THAT(differences(source().conninfo(database), target().conninfo(database)), IsEmpty());
  EXPECT_EQ(target().scalar("select count(*) from pg_tables where tablename = 'ok'", database), "1");
}

}  // namespace
}  // namespace pgbaton::testing
