// What neither the copy nor the stream carries, and what the comparison of rows does not see: named before anything
// begins, and again when the replica ends.
#include "check_fixture.hpp"

namespace pgbaton::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class LeftBehindTest : public CheckTest {
 protected:
  // By object; the ids are all the same.
  static std::map<std::string, std::string> named(const Json& document, const std::string& id) {
    std::map<std::string, std::string> found;
    for (const auto& finding : document.value("findings", Json::array()))
      if (finding.at("id") == id)
        found[finding.at("object")] =
            finding.at("message").get<std::string>() + " | " + finding.at("remedy").get<std::string>();
    return found;
  }
};

// plpgsql stands for an extension that keeps what the application gives it (pg_cron, pg_partman, PostGIS): `job` is one
// of its configuration tables, and comes with row 1.
TEST_F(LeftBehindTest, RowsOfTablesThatBelongToExtensions) {
  const std::string tables =
      "create table job (id int primary key, made text, twice int generated always as (id * 2) stored);"
      "create table lookup (id int primary key); create table same (v float8); create table bare (id int);"
      "create sequence ticket; create sequence untouched;"
      "insert into job values (1, 'with the extension'); insert into same values (0.1), (null);";
  const std::string members =
      "alter extension plpgsql add table job; alter extension plpgsql add table lookup; alter extension plpgsql add "
      "table same; alter extension plpgsql add table bare; alter extension plpgsql add sequence ticket; alter "
      "extension "
      "plpgsql add sequence untouched;"
      "update pg_extension set extconfig = array['job'::regclass::oid, 'ticket'::regclass::oid], extcondition = "
      "array['WHERE id > 10', ''] where extname = 'plpgsql'";
  source().exec("create table kept (id int primary key); insert into kept values (1);" + tables +
                "insert into job values (11, 'by the application'); insert into lookup values (1); select "
                "nextval('ticket')");
  source().exec(members);
  auto found = named(findings(source().conninfo(), "", {}, 0), "source.extension_data");
  EXPECT_EQ(found.size(), 4U);
  EXPECT_THAT(found[R"("public"."job")"],
              AllOf(HasSubstr("belongs to extension \"plpgsql\""), HasSubstr("it has 1 row | "),
                    HasSubstr(R"(\copy (SELECT id, made FROM ONLY "public"."job" WHERE id > 10))"),
                    HasSubstr(R"(\copy "public"."job" (id, made) FROM)")));
  EXPECT_THAT(found[R"("public"."lookup")"], HasSubstr("whether CREATE EXTENSION makes the same is not known"));
  EXPECT_THAT(found[R"("public"."ticket")"], HasSubstr(R"(setval('"public"."ticket"', 1, true))"));
  found = named(findings(source().conninfo(), target().conninfo(), {}, 0), "source.extension_data");
  EXPECT_THAT(found[R"("public"."same")"], HasSubstr("it has 2 rows, and does not exist on the target by now"));
  clone_until_caught_up();
  EXPECT_EQ(target().scalar("select to_regclass('job') is null and to_regclass('kept') is not null"), "t");
  target().exec(tables + "insert into lookup values (2)");
  target().exec(members);
  const auto result = run("finish");
  EXPECT_EQ(result.code, 0) << result;
  for (const auto* words : {R"(BUT  "public"."job" belongs to)", "it has 1 row on the source and 0 on the target",
                            "it has 1 row on the source and 1 on the target, which differ", "its value is 1 on the"})
    EXPECT_THAT(result.out, HasSubstr(words));
  for (const auto* name : {"same", "bare", "untouched"}) EXPECT_THAT(result.out, Not(HasSubstr(name)));
}

// One of each kind that no row shows, on tables that were cloned before. What is named is named once, with a statement
// that mends it; what the target has the same is not named, though its text changes when it is restored.
TEST_F(LeftBehindTest, DdlSinceTheCloneThatNoRowShows) {
  source().exec(
      "create table t (id int primary key, v int, w varchar(9) check (w in ('a', 'b')), old int unique); create table "
      "p (id int primary key, v int) partition by range (id); create table p_1 partition of p for values from (0) to "
      "(9); create index kept on t (w) where w in ('a', 'b'); create function kept(int) returns int language sql as "
      "'select 1'; create view kept_view as select 1 as one; create sequence kept_s; create sequence s; create policy "
      "kept on t using (w in ('a', 'b')); insert "
      "into t values (1, 1, 'a', 1); insert into p values (1, 1)");
  clone_until_caught_up();
  source().exec(
      "create unique index tv on t (v); create index pv on p (v); alter table t alter v set not null, alter v set "
      "default 7, add constraint pos check (v > 0), drop constraint t_old_key, enable row level security; create "
      "policy mine on t using (v < 5); create function f() returns trigger language plpgsql as 'begin return new; "
      "end'; create trigger tt before insert on p for each row execute function f(); create view vw as select 1 as "
      "one; "
      "create or replace function kept(int) returns int language sql as 'select 2'; alter table p add foreign key (v) "
      "references t; alter sequence s maxvalue 9000 cache 20");
  ASSERT_EQ(run("follow", {"--until", "caught-up"}).code, 0);
  const Json report = Json::parse(run("switchover", {"--dry-run", "--json"}).out, nullptr, false);
  const auto found = named(report, "target.definition");
  const auto result = run("finish", {"--json"});
  ASSERT_EQ(result.code, 0) << result;
  const Json document = Json::parse(result.out);
  std::set<std::string> lines;
  for (const auto& line : document.at("not_streamed")) lines.insert(line.get<std::string>());
  const std::set<std::string> expected{
      R"("public"."t": unique index tv is on the source only. CREATE UNIQUE INDEX tv ON public.t USING btree (v); on )",
      R"("public"."p": index pv is on the source only. CREATE INDEX pv ON public.p USING btree (v); on )",
      R"("public"."t": NOT NULL of column v is on the source only. ALTER TABLE public.t ALTER COLUMN v SET NOT NULL; on )",
      R"("public"."t": default of column v is on the source only. ALTER TABLE public.t ALTER COLUMN v SET DEFAULT 7; on )",
      R"("public"."t": check constraint pos is on the source only. ALTER TABLE public.t ADD CONSTRAINT pos CHECK ((v > 0)); on )",
      R"("public"."t": unique constraint t_old_key is on the target only. ALTER TABLE public.t DROP CONSTRAINT t_old_key; on )",
      R"("public"."t": row security (enable) is on the source only. ALTER TABLE public.t ENABLE ROW LEVEL SECURITY; on )",
      R"("public"."t": policy mine is on the source only. CREATE POLICY mine ON public.t AS PERMISSIVE FOR ALL TO PUBLIC USING ((v < 5)); on )",
      R"("public"."p": trigger tt is on the source only. CREATE TRIGGER tt BEFORE INSERT ON public.p FOR EACH ROW EXECUTE FUNCTION public.f(); on )",
      R"("public"."p": foreign key p_v_fkey is on the source only. ALTER TABLE public.p ADD CONSTRAINT p_v_fkey FOREIGN KEY (v) REFERENCES public.t(id); on )",
      R"("public"."f"(): the function is on the source only. Take)",
      R"("public"."kept"(integer): the function is not the same on both sides. Take)",
      R"("public"."s": the sequence is not the same on both sides. ALTER SEQUENCE public.s AS bigint INCREMENT 1 MINVALUE 1 MAXVALUE 9000 CACHE 20 NO CYCLE; on )",
      R"("public"."vw": the view is on the source only. Take)"};
  EXPECT_EQ(lines.size(), expected.size()) << result;
  for (const auto& begin : expected) {
    const auto line = lines.lower_bound(begin);
    EXPECT_TRUE(line != lines.end() && line->starts_with(begin)) << begin << "\nin " << result;
  }
  EXPECT_EQ(found.size(), 6U) << report.dump(2);
}

}  // namespace
}  // namespace pgbaton::testing
