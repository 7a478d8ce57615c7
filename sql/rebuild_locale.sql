-- How database $1 of this server was made, as options of CREATE DATABASE; columns that a major does not have are null.
-- Version 15 brought providers and icu locales, 17 renamed them.
select pg_encoding_to_char(d.encoding) as encoding, d.datcollate, d.datctype,
       case j ->> 'datlocprovider' when 'i' then 'icu' when 'b' then 'builtin' else 'libc' end as provider,
       coalesce(j ->> 'datlocale', j ->> 'daticulocale', '') as locale, coalesce(j ->> 'daticurules', '') as icu_rules,
       pg_get_userbyid(d.datdba) as owner, t.spcname as tablespace
  from pg_catalog.pg_database d cross join lateral to_jsonb(d) j
  join pg_catalog.pg_tablespace t on t.oid = d.dattablespace
 where d.datname = $1;
