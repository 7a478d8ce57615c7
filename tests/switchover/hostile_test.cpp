// What was found by looking for ways to break a switchover: each of these once closed both sides, left a pooler paused,
// or ended with a wrong word.
#include <signal.h>

#include <thread>

#include "support/address.hpp"
#include "switchover/bouncer.hpp"
#include "switchover/clients.hpp"

namespace pgbaton::testing {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

class HostileSwitchover : public PairTest {
 protected:
  ClusterOptions source_options() const override { return {.settings = {{"listen_addresses", "*"}}}; }
  void SetUp() override {
    PairTest::SetUp();
    source().exec(
        "create table account (id bigint primary key, n int not null); insert into account values (1, 0);"
        "create table emptied (id int primary key, pad text); insert into emptied select i, repeat('x', 500) from "
        "generate_series(1, 200) i; create table counted (id serial primary key)");
    clone_until_caught_up();
    directory_ = make_run_directory("hostile");
  }
  std::string config(const std::string& settings) {
    std::ofstream(directory_ + "/config.yaml") << "switchover:\n  gap: 1000\n" << settings;
    return directory_ + "/config.yaml";
  }
  ToolResult switch_over(const std::string& settings, const Arguments& more = {}, const Environment& environment = {}) {
    Arguments all{"--config", config(settings)};
    all.insert(all.end(), more.begin(), more.end());
    return run("switchover", all, environment, Milliseconds(120'000));
  }
  Tool begun(const std::string& settings, const std::string& failpoints) {
    Environment environment;
    if (!failpoints.empty()) environment.emplace_back("PGBATON_FAILPOINTS", failpoints);
    return start("switchover", {"--config", config(settings)}, environment);
  }
  bool fenced() {
    return source().wait_until("select count(*) from pg_namespace where nspname = 'pgbaton_fence'", "1");
  }
  static pid_t watchdog_of(const Tool& conductor) {
    const auto pid = std::to_string(conductor.pid());
    pid_t watchdog = 0;
    std::ifstream("/proc/" + pid + "/task/" + pid + "/children") >> watchdog;
    return watchdog;
  }
  // Until writers get on; the time it took.
  template <typename Write>
  static Milliseconds closed_for(Write&& write) {
    const auto begin = std::chrono::steady_clock::now();
    while (!write() && std::chrono::steady_clock::now() - begin < Milliseconds(40'000))
      std::this_thread::sleep_for(Milliseconds(50));
    return std::chrono::duration_cast<Milliseconds>(std::chrono::steady_clock::now() - begin);
  }
  static bool writes_through(const Bouncer& pooler) {
    try {
      Session session(pooler.conninfo() + " connect_timeout=2");
      session.exec("update account set n = n + 1 where id = 1");
      return true;
    } catch (const std::exception&) {
      return false;
    }
  }
  static bool is_paused(Session& console) {
    for (const auto& row : console.query("show databases"))
      if (row.at(0) == "app") return row.at(row.size() - 2) == "1";
    return false;
  }
  void expect_plain_passwords_by_name_only(const Bouncer& pooler, const std::string& address);
  std::string directory_;
};

// Where another host would get a password in the clear: only when that is allowed, and then from the watchdog, too.
void HostileSwitchover::expect_plain_passwords_by_name_only(const Bouncer& pooler, const std::string& address) {
  const std::string secret = "topsecret";
  for (const std::string mode : {"", " sslmode=disable"}) {
    const auto refused = switch_over(
        "  pgbouncer: " + pooler.conninfo("pgbouncer", address) + " password=" + secret + mode + "\n", {"--dry-run"});
    EXPECT_EQ(refused.code, 3) << refused;
    EXPECT_THAT(refused.out, AllOf(HasSubstr("blocker  pgbouncer"), HasSubstr("allow_plain_password: [")));
    EXPECT_THAT(refused.out + refused.err, Not(HasSubstr(secret)));
  }
  std::ofstream(source().data_directory() + "/pg_hba.conf", std::ios::app)
      << "host all all all trust\nhost replication all all trust\n";
  source().reload();
  const auto elsewhere = "host=" + address + " port=" + std::to_string(source().port()) +
                         " user=postgres dbname=postgres password=" + secret;
  Tool lost({"switchover", "--config",
             config("  pgbouncer-pause: app\n  pgbouncer: " + pooler.conninfo("pgbouncer", address) +
                    " password=" + secret + "\nallow_plain_password: [" + address + "]\n"),
             "--source", elsewhere, "--target", target().conninfo()},
            {{"PGBATON_FAILPOINTS", "switchover_fenced=freeze"}});
  ASSERT_TRUE(is_frozen(lost)) << lost.err();
  Session console(pooler.conninfo("pgbouncer"));
  EXPECT_TRUE(is_paused(console));
  for (const auto pid : {static_cast<pid_t>(lost.pid()), watchdog_of(lost)})
    for (const std::string file : {"/cmdline", "/environ"}) {
      const auto text = read_file("/proc/" + std::to_string(pid) + file);
      EXPECT_NE(text, "") << file;
      EXPECT_THAT(text, Not(HasSubstr(secret))) << file;
    }
  EXPECT_THAT(lost.err(), Not(HasSubstr(secret)));
  lost.kill(SIGKILL);
  lost.wait();
  EXPECT_LT(closed_for([&] { return !is_paused(console) && writes_through(pooler); }), Milliseconds(12'000));
  EXPECT_TRUE(source().wait_until("select count(*) from pg_namespace where nspname = 'pgbaton_fence'", "0"));
}

TEST_F(HostileSwitchover, FrozenProcessesAndAMissingStandbyKeepNobodyOut) {
  // A watchdog that is frozen: the conductor opens the source itself.
  auto conductor = begun("  deadline: 10s\n", "switchover_fenced=freeze");
  ASSERT_TRUE(fenced());
  ASSERT_TRUE(is_frozen(conductor));
  const auto watchdog = watchdog_of(conductor);
  ASSERT_GT(watchdog, 0);
  ::kill(watchdog, SIGSTOP);
  conductor.kill(SIGCONT);
  EXPECT_LT(closed_for([&] { return takes_writes(source()); }), Milliseconds(12'000))
      << "5 s are waited for its answer";
  EXPECT_NE(conductor.wait().code, 0);
  ::kill(watchdog, SIGCONT);
  expect_only(source(), target(), "a frozen watchdog");
  // A synchronous standby that goes away in the pause, while the application does not wait for one itself.
  source().exec("alter database postgres set synchronous_commit = local");
  auto waiting = begun("  deadline: 3s\n", "switchover_fenced=freeze");
  ASSERT_TRUE(is_frozen(waiting));
  source().exec("alter system set synchronous_standby_names = 'gone'");
  source().exec("select pg_reload_conf()");
  EXPECT_LT(closed_for([&] { return takes_writes(source()); }), Milliseconds(12'000));
  waiting.kill(SIGCONT);
  EXPECT_NE(waiting.wait().code, 0);
  const auto refused = switch_over("", {"--dry-run"});
  EXPECT_EQ(refused.code, 3) << refused;
  EXPECT_THAT(refused.out, HasSubstr("no synchronous standby is connected"));
  source().exec("alter system reset synchronous_standby_names");
  source().exec("select pg_reload_conf()");
  source().exec("alter database postgres reset synchronous_commit");
  expect_only(source(), target(), "a missing standby");
  // Both processes lost: the next run does not say that the source is open.
  auto lost = begun("", "switchover_fenced=freeze");
  ASSERT_TRUE(is_frozen(lost));
  ::kill(watchdog_of(lost), SIGKILL);
  lost.kill(SIGKILL);
  lost.wait();
  const auto next = switch_over("");
  EXPECT_EQ(next.code, 3) << next;
  EXPECT_THAT(next.out, Not(HasSubstr("the source takes writes")));
  // A command that fails when nobody changes sides does not keep the fence there.
  const auto opened = switch_over("  hooks:\n    given-up: exit 7\n", {"--undo"});
  EXPECT_EQ(opened.code, 0) << opened;
  EXPECT_THAT(opened.err, HasSubstr("hooks: given-up ended with 7"));
  EXPECT_THAT(opened.out, HasSubstr("the source takes writes again"));
  EXPECT_EQ(source().number("select count(*) from pg_namespace where nspname = 'pgbaton_fence'"), 0);
  EXPECT_TRUE(takes_writes(source()));
  // The same, and the replica is dropped: nobody could say afterwards that the source may be opened.
  auto dropped = begun("", "switchover_fenced=freeze");
  ASSERT_TRUE(is_frozen(dropped));
  ::kill(watchdog_of(dropped), SIGKILL);
  dropped.kill(SIGKILL);
  dropped.wait();
  EXPECT_FALSE(takes_writes(source()));
  const auto removed = run("drop");
  EXPECT_EQ(removed.code, 0) << removed;
  EXPECT_THAT(removed.out, HasSubstr("removed  fence on the source, of a switchover that was lost before its flip"));
  for (auto* server : {&source(), &target()}) {
    EXPECT_EQ(server->number("select count(*) from pg_namespace where nspname like 'pgbaton%'"), 0);
    EXPECT_TRUE(takes_writes(*server));
  }
}

TEST_F(HostileSwitchover, APoolerIsLookedAtBeforeAndNeverLeftPaused) {
  // Wrong in the file: told before anybody is fenced, and without the password.
  const auto nobody =
      switch_over("  pgbouncer: host=127.0.0.1 port=1 dbname=pgbouncer user=a password=topsecret\n", {"--dry-run"});
  EXPECT_EQ(nobody.code, 3) << nobody;
  EXPECT_THAT(nobody.out, HasSubstr("blocker  pgbouncer"));
  const auto broken = switch_over("  pgbouncer: host=127.0.0.1 user=a password=top secretpart\n", {"--dry-run"});
  EXPECT_EQ(broken.code, 3) << broken;
  for (const auto& result : {nobody, broken}) {
    EXPECT_THAT(result.out + result.err, Not(AnyOf(HasSubstr("topsecret"), HasSubstr("secretpart"))));
  }
  const auto hook = switch_over("  hooks:\n    barrier: /nosuch/command\n", {"--dry-run"});
  EXPECT_EQ(hook.code, 3) << hook;
  EXPECT_THAT(hook.out, HasSubstr("/nosuch/command is no executable file"));
  EXPECT_EQ(switch_over("  hooks:\n    flip: 'true'\n", {"--dry-run"}).code, 2) << "nothing may stand between";
  Bouncer pooler(source(), target());
  const auto settings = "  transaction-wait: 10s\n  deadline: 3s\n  pgbouncer: " + pooler.conninfo("pgbouncer") +
                        "\n  pgbouncer-conffile: " + pooler.after() + "\n  pgbouncer-pause: ";
  EXPECT_EQ(switch_over(settings + "nosuch\n", {"--dry-run"}).code, 3);
  EXPECT_EQ(switch_over(settings + "app\n", {"--dry-run"}).code, 0);
  if (const auto address = own_address(); !address.empty()) expect_plain_passwords_by_name_only(pooler, address);
  // Frozen while PAUSE waits for a transaction in the pooler that only reads: the deadline holds there, too.
  Session busy(pooler.conninfo());
  busy.exec("begin; select n from account");
  auto frozen = begun(settings + "app\n", "");
  Session console(pooler.conninfo("pgbouncer"));
  const auto paused = [&] { return is_paused(console); };
  for (int i = 0; i < 1200 && !paused(); ++i) std::this_thread::sleep_for(Milliseconds(25));
  ASSERT_TRUE(paused());
  frozen.kill(SIGSTOP);
  busy.exec("commit");
  EXPECT_LT(closed_for([&] { return !paused() && writes_through(pooler); }), Milliseconds(12'000));
  frozen.kill(SIGCONT);
  EXPECT_NE(frozen.wait().code, 0);
  // Lost with its watchdog while the pooler is paused: --undo lets its clients go on.
  auto lost = begun(settings + "app\n", "switchover_fenced=freeze");
  ASSERT_TRUE(is_frozen(lost));
  ::kill(watchdog_of(lost), SIGKILL);
  lost.kill(SIGKILL);
  lost.wait();
  EXPECT_TRUE(paused());
  EXPECT_EQ(switch_over(settings + "app\n", {"--undo"}).code, 0);
  EXPECT_TRUE(writes_through(pooler));
  // A file that it cannot read: it answers with success, and goes on with what it had.
  const auto astray =
      switch_over("  pgbouncer: " + pooler.conninfo("pgbouncer") + "\n  pgbouncer-conffile: /no/such.ini\n");
  EXPECT_EQ(astray.code, 1) << astray;
  EXPECT_THAT(astray.err, AllOf(HasSubstr("lead where they led before"), HasSubstr("run the same command again")));
  EXPECT_FALSE(writes_through(pooler));
  const auto ended = switch_over(settings + "app\n");
  EXPECT_EQ(ended.code, 0) << ended;
  EXPECT_TRUE(writes_through(pooler));
  expect_only(target(), source(), "through the pooler");
}

TEST_F(HostileSwitchover, NothingIsTakenForDoneThatIsNotAndNothingGoesBack) {
  // A role without special rights on the target can look and move.
  target().exec("create role mover login; grant set on parameter session_replication_role to mover");
  target().exec("create database moved owner mover");
  source().exec("create database moved");
  Session moved(source().conninfo("moved"));
  moved.exec("create table t (id int primary key)");
  const auto mover = [&](const std::string& command, const Arguments& more) {
    Arguments all{command,
                  "--source",
                  source().conninfo("moved"),
                  "--target",
                  "host=127.0.0.1 user=mover dbname=moved port=" + std::to_string(target().port()),
                  "--name",
                  "moved"};
    all.insert(all.end(), more.begin(), more.end());
    return Tool::run(all);
  };
  const auto cloned = mover("clone", {"--until", "caught-up", "--no-owner", "--no-privileges"});
  ASSERT_EQ(cloned.code, 0) << cloned;
  const auto looked = mover("switchover", {"--dry-run"});
  EXPECT_EQ(looked.code, 0) << looked;
  ASSERT_EQ(mover("drop", {}).code, 0);
  // A table that is emptied while both sides are counted looks empty to the snapshot: counted again.
  // A follower that is about to begin its term when it is asked to stop.
  auto follower = start("follow", {}, {{"PGBATON_FAILPOINTS", "term_begins=freeze@1"}});
  ASSERT_TRUE(is_frozen(follower));
  auto counting = begun("  way-back: no\n  transaction-wait: 60s\n", "switchover_counting=freeze@1");
  EXPECT_TRUE(
      target().wait_until("select count(*) from pgbaton.request where kind = 'stop'", "1", Milliseconds(60'000)));
  follower.kill(SIGCONT);
  ASSERT_TRUE(is_frozen(counting)) << counting.err();
  auto held = target().session();
  held.exec(
      "begin; lock table account in share mode");  // the stream must not empty it there, too, before it is counted
  source().exec(
      "begin; insert into account values (2, 0); truncate emptied; insert into emptied select i, 'y' from "
      "generate_series(1, 300) i; commit");
  counting.kill(SIGCONT);
  EXPECT_TRUE(counting.wait_for_stderr("counting again", Milliseconds(60'000)));
  held.exec("commit");
  const auto done = counting.wait(Milliseconds(90'000));
  EXPECT_EQ(done.code, 0) << done;
  EXPECT_EQ(follower.wait().code, 0) << follower.err() << "its schema went, which is no error";
  EXPECT_EQ(target().number("select count(*) from emptied"), 300);
  // Sequences of the live side never go back.
  const auto before = target().number("insert into counted default values returning id");
  run("sequences", {"--gap", "1"});
  EXPECT_GT(target().number("insert into counted default values returning id"), before);
  // Another database is not where it went.
  target().exec("create database elsewhere");
  const auto elsewhere =
      Tool::run({"switchover", "--source", source().conninfo(), "--target", target().conninfo("elsewhere")});
  EXPECT_EQ(elsewhere.code, 2) << elsewhere;
  EXPECT_THAT(switch_over("").out, HasSubstr("already switched over"));
}

}  // namespace
}  // namespace pgbaton::testing
