"""Whether two databases hold the same rows: by psql and the servers' own hash of each row's text, never by what the
measured programs say. For every table of the source: the number of rows, and two sums of 64-bit hashes with different
seeds, so that neither order nor storage matters. Columns that only the target has do not count."""

TABLES = """
select format('select %L, count(*), sum(hashtextextended(t::text, 0)::numeric), sum(hashtextextended(t::text, 1)::numeric) from (select %s from only %I.%I) t;',
  n.nspname || '.' || c.relname, string_agg(quote_ident(a.attname), ', ' order by a.attnum), n.nspname, c.relname)
from pg_class c join pg_namespace n on n.oid = c.relnamespace join pg_attribute a on a.attrelid = c.oid
where c.relkind = 'r' and n.nspname = 'public' and a.attnum > 0 and not a.attisdropped
group by n.nspname, c.relname order by 1"""

SETTINGS = "set timezone = 'UTC'; set extra_float_digits = 3; set work_mem = '64MB';\n"


def fingerprint(source, source_database, cluster, database):
    """One line for each table of the source's database, as `cluster` holds it."""
    return cluster.sql(database, SETTINGS + source.sql(source_database, TABLES)).splitlines()


def require_equal(expected, found, who):
    """A wrong result has no speed."""
    if expected == found:
        return
    differing = [f"  source {a}\n  target {b}" for a, b in zip(expected, found) if a != b]
    raise RuntimeError(f"{who}: the target is not what the source is\n" + "\n".join(differing[:5]))
