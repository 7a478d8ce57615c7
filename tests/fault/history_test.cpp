// The slot is not what it was, or the source's history is another one. Each row breaks one thing while a follower
// stands still between two connections; when it wakes it must end before it has applied anything, say what happened and
// what to do, and so must the next start and `status`.
#include <signal.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "support/pair.hpp"

namespace pgbaton::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kRows = "select coalesce(md5(string_agg(t::text, '|' order by id)), '') from t";

// One replica of a source database, with a target database of its own, on servers that many rows share.
class Victim {
 public:
  Victim(Cluster& source, Cluster& target, std::string name, std::string source_conninfo = "")
      : source_(source), target_(target), name_(std::move(name)), source_conninfo_(std::move(source_conninfo)) {
    if (source_conninfo_.empty()) source_conninfo_ = source.conninfo(name_);
  }
  void create(const Arguments& more = {}) {
    source_.exec("create database " + name_);
    target_.exec("create database " + name_);
    source_.exec(
        "create table t (id int primary key, v text); insert into t values (1, 'copied'); create table u (id "
        "int primary key)",
        name_);
    Arguments all{"--until", "caught-up"};
    all.insert(all.end(), more.begin(), more.end());
    const auto result = run("clone", all);
    if (result.code != 0) throw std::runtime_error("clone: " + result.err);
  }
  std::string slot() const { return "pgbaton_" + name_; }
  const std::string& name() const { return name_; }
  void exec(const std::string& sql) { source_.exec(sql, name_); }
  void exec_elsewhere(const std::string& sql) { source_.exec(sql, "postgres"); }
  std::string scalar(const std::string& sql) { return source_.scalar(sql, name_); }

  ToolResult run(const std::string& command, const Arguments& more = {}) {
    return Tool::run(arguments(command, more), Milliseconds(90'000));
  }
  Tool start(const std::string& command, const Arguments& more = {}) { return Tool(arguments(command, more)); }
  std::string rows() { return target_.scalar(kRows, name_); }
  bool arrives(const std::string& value) {
    exec("insert into t select max(id) + 1, '" + value + "' from t");
    return target_.wait_until("select count(*) from t where v = '" + value + "'", "1", Milliseconds(40'000), name_);
  }
  // A follower that streams, stopped, and without its walsender: what happens now happens between two connections.
  Tool frozen_follower() {
    auto follower = start("follow");
    if (!arrives("streamed")) throw std::runtime_error("nothing arrives: " + follower.err());
    follower.kill(SIGSTOP);
    source_.exec("select pg_terminate_backend(active_pid) from pg_replication_slots where slot_name = '" + slot() +
                 "'");
    if (!source_.wait_until("select active from pg_replication_slots where slot_name = '" + slot() + "'", "f"))
      throw std::runtime_error("the slot stays active");
    return follower;
  }
  nlohmann::json status() {
    const auto result = run("status", {"--json"});
    auto json = nlohmann::json::parse(result.out, nullptr, false);
    if (result.code != 0 || json.is_discarded()) throw std::runtime_error("status: " + result.out + result.err);
    return json;
  }
  Arguments arguments(const std::string& command, const Arguments& more) const {
    Arguments result{command, "--name", name_, "--source", source_conninfo_, "--target", target_.conninfo(name_)};
    result.insert(result.end(), more.begin(), more.end());
    return result;
  }

 private:
  Cluster& source_;
  Cluster& target_;
  const std::string name_;
  std::string source_conninfo_;
};

struct Refusal {
  int code;
  std::vector<std::string> message;
  std::string hint;
};

void expect_refused(const ToolResult& result, const Refusal& expected) {
  EXPECT_EQ(result.code, expected.code) << result;
  const auto error = result.err.find("ERROR: ");
  ASSERT_NE(error, std::string::npos) << result;
  const auto text = result.err.substr(error);
  const auto hint = text.find("HINT: ");
  ASSERT_NE(hint, std::string::npos) << result;
  for (const auto& part : expected.message) EXPECT_THAT(text.substr(0, hint), HasSubstr(part));
  EXPECT_THAT(text.substr(hint), HasSubstr(expected.hint));
}

// The follower that was there, the next start, and status.
void expect_lost(Victim& victim, Tool& follower, const std::string& rows_before, const Refusal& expected) {
  follower.kill(SIGCONT);
  expect_refused(follower.wait(Milliseconds(60'000)), expected);
  EXPECT_EQ(victim.rows(), rows_before) << "something was applied";
  expect_refused(victim.run("follow", {"--until", "caught-up"}), expected);
  EXPECT_EQ(victim.rows(), rows_before) << "something was applied";
  const auto status = victim.status();
  EXPECT_EQ(status["last_error"]["exit_code"], expected.code) << status.dump(1);
  EXPECT_THAT(status["last_error"]["message"].get<std::string>(), HasSubstr(expected.message.front()));
  EXPECT_THAT(status["last_error"]["hint"].get<std::string>(), HasSubstr(expected.hint));
  std::string warnings;
  for (const auto& warning : status["warnings"]) warnings += warning.get<std::string>() + "\n";
  for (const auto& part : expected.message) EXPECT_THAT(warnings, HasSubstr(part));
}

struct Fault {
  std::string name;
  std::function<void(Victim&)> strike;
  Refusal refusal;
};

std::string drop_slot(const Victim& victim) {
  return "select pg_drop_replication_slot('" + victim.slot() + "');";
}
std::string create_slot(const Victim& victim, const std::string& plugin) {
  return "select pg_create_logical_replication_slot('" + victim.slot() + "', '" + plugin + "');";
}
std::string take_changes(const Victim& victim) {
  return "select count(*) from pg_logical_slot_get_binary_changes('" + victim.slot() +
         "', null, null, 'proto_version', '1', 'publication_names', '" + victim.slot() + "')";
}

const std::string kNew = "insert into t select max(id) + 1, 'missed' from t;";
const std::string kAnew = "pgbaton clone --restart";

std::vector<Fault> slot_faults() {
  return {
      {"dropped",
       [](Victim& v) { v.exec(drop_slot(v) + kNew); },
       {4, {"does not exist on the source", "dropped"}, kAnew}},
      {"made_again",
       [](Victim& v) {
         v.exec(drop_slot(v));
         v.exec(kNew);
         v.exec(create_slot(v, "pgoutput"));
         v.exec(kNew);
       },
       {4, {"stands at", "beyond", "made again"}, kAnew}},
      {"advanced",
       [](Victim& v) {
         v.exec(kNew);
         v.exec("select pg_replication_slot_advance('" + v.slot() + "', pg_current_wal_flush_lsn())");
         v.exec(kNew);
       },
       {4, {"stands at", "beyond", "it was advanced"}, kAnew}},
      {"read_by_another",
       [](Victim& v) {
         v.exec(kNew);
         v.exec(take_changes(v));
         v.exec(kNew);
       },
       {4, {"stands at", "beyond", "read by someone else"}, kAnew}},
      {"other_plugin",
       [](Victim& v) {
         v.exec(drop_slot(v));
         v.exec(create_slot(v, "test_decoding"));
       },
       {4, {"is not ours", "plugin test_decoding"}, "Drop it"}},
      {"other_database",
       [](Victim& v) {
         v.exec(drop_slot(v));
         v.exec_elsewhere(create_slot(v, "pgoutput"));
       },
       {4, {"is not ours", "database \"postgres\""}, "Drop it"}},
      {"publication_dropped",
       [](Victim& v) { v.exec("drop publication " + v.slot() + ";" + kNew); },
       {4, {"publication pgbaton_", "was dropped"}, kAnew}},
      {"publication_made_again",
       [](Victim& v) {
         v.exec("drop publication " + v.slot() + ";" + kNew);
         v.exec("create publication " + v.slot() + " for table t, u");
       },
       {4, {"publication pgbaton_", "was dropped and made again"}, kAnew}},
      {"publication_for_all_tables",
       [](Victim& v) {
         v.exec("drop publication " + v.slot() + "; create publication " + v.slot() + " for all tables;" + kNew);
       },
       {4, {"publication pgbaton_", "was dropped and made again"}, kAnew}},
      {"table_taken_out",
       [](Victim& v) { v.exec("alter publication " + v.slot() + " drop table t;" + kNew); },
       {4, {"table public.t was taken out of publication"}, kAnew}},
      {"table_taken_out_and_put_back",
       [](Victim& v) {
         v.exec("alter publication " + v.slot() + " drop table t;" + kNew);
         v.exec("alter publication " + v.slot() + " add table t");
       },
       {4, {"table public.t was taken out of publication", "and put back"}, kAnew}},
      {"row_filter",
       [](Victim& v) { v.exec("alter publication " + v.slot() + " set table t where (id < 2), u;" + kNew); },
       {4, {"table public.t has got a row filter"}, kAnew}},
      {"column_list",
       [](Victim& v) { v.exec("alter publication " + v.slot() + " set table t (id), u;" + kNew); },
       {4, {"table public.t has got a column list"}, kAnew}},
      {"other_actions",
       [](Victim& v) { v.exec("alter publication " + v.slot() + " set (publish = 'update, delete');" + kNew); },
       {4, {"publication pgbaton_", "it publishes update, delete"}, kAnew}},
      {"other_actions_for_a_time",
       [](Victim& v) {
         v.exec("alter publication " + v.slot() + " set (publish = 'update');" + kNew);
         v.exec("alter publication " + v.slot() + " set (publish = 'insert, update, delete, truncate')");
       },
       {4, {"publication pgbaton_", "was altered after the replica was built"}, kAnew}},
  };
}

void suffer(Victim& victim, const Fault& fault) {
  victim.create();
  auto follower = victim.frozen_follower();
  const auto before = victim.rows();
  fault.strike(victim);
  expect_lost(victim, follower, before, fault.refusal);
}

class HistoryFaultTest : public PairTest {};

TEST_F(HistoryFaultTest, SlotAndPublicationFaultsAreNamedBeforeAnythingIsApplied) {
  const auto faults = slot_faults();
  // They wait more than they work.
  std::atomic<std::size_t> next{0};
  std::vector<std::jthread> workers;
  for (int i = 0; i < 4; ++i) {
    workers.emplace_back([&] {
      for (std::size_t n = next++; n < faults.size(); n = next++) {
        SCOPED_TRACE(faults[n].name);
        try {
          Victim victim(source(), target(), "r" + std::to_string(n));
          suffer(victim, faults[n]);
        } catch (const std::exception& error) {
          ADD_FAILURE() << error.what();
        }
      }
    });
  }
}

// Nobody interrupts the stream: what is missing is noticed all the same.
TEST_F(HistoryFaultTest, TableTakenOutWhileItStreamsEndsTheStream) {
  Victim victim(source(), target(), "live");
  victim.create();
  auto follower = victim.start("follow");
  ASSERT_TRUE(victim.arrives("streamed")) << follower.err();
  victim.exec("create table later (id int primary key); alter publication pgbaton_live add table later");
  std::this_thread::sleep_for(Milliseconds(2'500));
  ASSERT_TRUE(follower.running()) << "one more table costs nothing: " << follower.err();
  const auto before = victim.rows();
  victim.exec("alter publication pgbaton_live drop table t;" + kNew + "insert into u values (1)");
  const Refusal refusal{4, {"table public.t was taken out of publication"}, kAnew};
  expect_lost(victim, follower, before, refusal);
}

// 5: it may be our own walsender that has not noticed yet, so it is waited for.
TEST_F(HistoryFaultTest, SlotInUseBySomebodyElseIsNamed) {
  Victim victim(source(), target(), "busy");
  victim.create();
  const auto before = victim.rows();
  victim.exec(kNew);
  Session other(source().conninfo(victim.name()) + " replication=database");
  other.send("START_REPLICATION SLOT " + victim.slot() + " LOGICAL 0/0 (proto_version '1', publication_names '" +
             victim.slot() + "')");
  ASSERT_TRUE(source().wait_until("select active from pg_replication_slots", "t"));
  expect_refused(victim.run("follow", {"--until", "caught-up", "--give-up-after", "2s"}),
                 {5, {"is active for PID " + std::to_string(other.backend_pid())}, "another client reads this slot"});
  EXPECT_EQ(victim.rows(), before);
}

}  // namespace
}  // namespace pgbaton::testing
