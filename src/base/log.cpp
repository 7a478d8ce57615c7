#include <spdlog/logger.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>

#include <cstdio>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <pgbaton/base/error.hpp>
#include <pgbaton/base/log.hpp>

namespace pgbaton::log {
namespace {

spdlog::level::level_enum spdlog_level(Level level) {
  switch (level) {
    case Level::debug:
      return spdlog::level::debug;
    case Level::info:
      return spdlog::level::info;
    case Level::warning:
      return spdlog::level::warn;
    case Level::error:
      return spdlog::level::err;
  }
  return spdlog::level::info;
}

std::string_view level_word(spdlog::level::level_enum level, bool json) {
  if (level <= spdlog::level::debug) return json ? "debug" : "DEBUG";
  if (level == spdlog::level::info) return json ? "info" : "INFO ";
  if (level == spdlog::level::warn) return json ? "warning" : "WARN ";
  return json ? "error" : "ERROR";
}

// spdlog's own level names can only be changed when spdlog is compiled.
class LevelName : public spdlog::custom_flag_formatter {
 public:
  explicit LevelName(bool json) : json_(json) {}
  void format(const spdlog::details::log_msg& message, const std::tm&, spdlog::memory_buf_t& out) override {
    const auto word = level_word(message.level, json_);
    out.append(word.data(), word.data() + word.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override { return std::make_unique<LevelName>(json_); }

 private:
  bool json_;
};

std::unique_ptr<spdlog::formatter> formatter(Format format) {
  const bool json = format == Format::json;
  auto pattern = std::make_unique<spdlog::pattern_formatter>(json ? spdlog::pattern_time_type::utc
                                                                  : spdlog::pattern_time_type::local);
  pattern->add_flag<LevelName>('*', json);
  pattern->set_pattern(json ? R"({"ts":"%Y-%m-%dT%H:%M:%S.%eZ","level":"%*","message":%v})"
                            : "%Y-%m-%d %H:%M:%S.%e %* %v");
  return pattern;
}

// stderr, or whoever has asked for the lines.
class Output : public spdlog::sinks::base_sink<std::mutex> {
 public:
  void redirect(std::function<void(std::string_view)> writer) {
    const std::lock_guard lock(mutex_);
    writer_ = std::move(writer);
  }

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    if (writer_)
      writer_({line.data(), line.size()});
    else
      std::fwrite(line.data(), 1, line.size(), stderr);
  }
  void flush_() override { std::fflush(stderr); }

  std::function<void(std::string_view)> writer_;
};

struct Sink {
  Format format = Format::text;
  std::shared_ptr<Output> output = std::make_shared<Output>();
  spdlog::logger logger{"pgbaton", output};
  Sink() { logger.set_formatter(formatter(format)); }
};

// Never destroyed: a thread may still log while the process ends.
Sink& sink() {
  static Sink& only = *new Sink;
  return only;
}

// Server messages may be in any encoding; a log line must stay valid JSON.
std::string json_string(std::string_view message) {
  return nlohmann::json(message).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// Continuation lines start with a tab, as in PostgreSQL's own log: a message cannot imitate the start of a line.
std::string indented(std::string_view message) {
  std::string text;
  for (const char c : message) {
    text += c;
    if (c == '\n') text += '\t';
  }
  return text;
}

}  // namespace

void configure(Level level, Format format) {
  sink().format = format;
  sink().logger.set_formatter(formatter(format));
  sink().logger.set_level(spdlog_level(level));
}

void redirect(std::function<void(std::string_view line)> writer) {
  sink().output->redirect(std::move(writer));
}

Level parse_level(std::string_view text) {
  for (const auto& [name, level] : {std::pair<std::string_view, Level>{"debug", Level::debug},
                                    {"info", Level::info},
                                    {"warning", Level::warning},
                                    {"error", Level::error}}) {
    if (name == text) return level;
  }
  throw Error(ErrorKind::usage, fmt::format("log level: \"{}\" is not known", text))
      .hint("Use debug, info, warning or error.");
}

Format parse_format(std::string_view text) {
  if (text == "text") return Format::text;
  if (text == "json") return Format::json;
  throw Error(ErrorKind::usage, fmt::format("log format: \"{}\" is not known", text)).hint("Use text or json.");
}

bool enabled(Level level) {
  return sink().logger.should_log(spdlog_level(level));
}

void write(Level level, std::string_view message) {
  while (!message.empty() && (message.back() == '\n' || message.back() == '\r')) message.remove_suffix(1);
  const std::string text = sink().format == Format::json ? json_string(message) : indented(message);
  sink().logger.log(spdlog_level(level), spdlog::string_view_t(text));
}

}  // namespace pgbaton::log
