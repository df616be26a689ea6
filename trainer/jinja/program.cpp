#include "trainer/jinja/program.h"

#include "runtime/base/error.h"
#include "trainer/jinja/parser.h"
#include "trainer/jinja/unicode_text.h"

namespace trireme::jinja {
namespace {

constexpr size_t kMaxSource = size_t{1} << 20;

}  // namespace

Program::Program(const std::string& source, std::string where) : source_(source), where_(std::move(where)) {
  if (source.size() > kMaxSource)
    fail(ErrorCode::invalid_config, "{}: a template of more than {} MB", where_, kMaxSource >> 20);
  if (!is_utf8(source)) fail(ErrorCode::invalid_config, "{}: the template is not UTF-8", where_);
  try {
    body_ = Parser(read_tokens(source), constants_).parse();
    resolve_names(body_, scope_);
  } catch (const SyntaxError& error) {
    fail(ErrorCode::invalid_config, "{}:{}: {}", where_, error.line, error.message);
  } catch (const TemplateError& error) {
    fail(ErrorCode::invalid_config, "{}: {}", where_, error.what());
  }
}

}  // namespace trireme::jinja
