// Splitting the script of `pg_restore --verbose --file=-` into the entries of the archive.
//
//   script   = preamble { entry } trailer
//   entry    = "--" NL "-- TOC entry " id " (class " oid " OID " oid ")" NL
//              [ "-- Dependencies: " … NL ] "-- Name: " tag "; Type: " type "; Schema: " schema "; Owner: " owner NL
//              { "-- " … NL } "--" NL { statement }
//
// Only comments of the top level count: the script is lexed by PostgreSQL's rules for quoted text, so that nothing
// inside a literal, a quoted name or a function body can pass for a header. (pg_restore itself keeps newlines of names
// out of its comments.) Before an entry pg_restore may print SET default_tablespace or default_table_access_method,
// once for all that follow; each entry here starts with the settings in force, so that any of them can be run alone.
#pragma once
#include <pgbaton/copy/schema.hpp>

#include <string_view>
#include <vector>

namespace pgbaton::copy {

// Fills id, class_oid, catalog_oid, description, schema, tag, section and sql. Throws Error(failed) for a script of
// another form.
std::vector<TocEntry> split_script(std::string_view script, Section section);

// The first statement of an entry, without session settings, comments and semicolon.
std::string_view first_statement(std::string_view sql);

}  // namespace pgbaton::copy
