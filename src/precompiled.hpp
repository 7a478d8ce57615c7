// What nearly every file includes by itself; read once per build with PGBATON_PRECOMPILE. No file may rely on it.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <pqxx/connection>
#include <pqxx/result>
#include <pqxx/transaction>
#include <stdexcept>
#include <string>
#include <string_view>
#include <variant>
#include <vector>
