// COPY in both directions as RAII. A stream that is destroyed before finish() aborts: COPY IN ends with an error on the
// server, COPY OUT is cancelled and drained. Destructors never throw.
#pragma once
#include <pgbaton/pg/connection.hpp>

namespace pgbaton::pg {

class CopyOut {
 public:
  CopyOut(Connection& connection, const std::string& sql);  // a COPY … TO STDOUT
  ~CopyOut();
  CopyOut(const CopyOut&) = delete;
  CopyOut& operator=(const CopyOut&) = delete;
  // The next chunk (one row), valid until the next call; empty at the end. Throws on a server error.
  std::string_view read();
  // After the end: the number of rows that the server says it sent.
  long long rows() const { return rows_; }

 private:
  Connection& connection_;
  char* buffer_ = nullptr;
  bool done_ = false;
  long long rows_ = -1;
};

class CopyIn {
 public:
  CopyIn(Connection& connection, const std::string& sql);  // a COPY … FROM STDIN
  ~CopyIn();
  CopyIn(const CopyIn&) = delete;
  CopyIn& operator=(const CopyIn&) = delete;
  void write(std::string_view bytes);
  // Ends the COPY and returns the rows the server stored. Throws on a server error.
  long long finish();

 private:
  Connection& connection_;
  bool open_ = true;
};

}  // namespace pgbaton::pg
