// OmegaConf's ${...}, as verl's YAML files use it.
#include <algorithm>

#include "launcher/verl/settings.h"

namespace trireme::verl {
namespace {

class Resolver {
 public:
  Resolver(const Settings& settings, const Environment& environment)
      : settings_(settings), environment_(environment) {}

  Value value(const Value& written, const std::string& key) {
    if (written.kind == Value::Kind::list) {
      Value list = written;
      for (std::string& item : list.items) item = text(item, key);
      return list;
    }
    if (written.kind == Value::Kind::null) return written;
    const size_t end = closing(written.text, 0);
    if (end + 1 == written.text.size()) return reference(written.text.substr(2, end - 2), key);
    return scalar(text(written.text, key));
  }

 private:
  static constexpr int kMaxDepth = 32;  // of references to references

  /// The place of the brace that closes the ${ at `at`; npos where none stands there.
  static size_t closing(const std::string& text, size_t at) {
    if (text.compare(at, 2, "${") != 0) return std::string::npos - 1;
    int depth = 0;
    for (size_t i = at + 1; i < text.size(); ++i) {
      if (text[i] == '{') ++depth;
      if (text[i] == '}' && --depth == 0) return i;
    }
    return std::string::npos - 1;
  }

  std::string text(const std::string& written, const std::string& key) {
    std::string out;
    for (size_t at = 0; at < written.size(); ++at) {
      const size_t end = closing(written, at);
      if (end < written.size()) {
        const Value value = reference(written.substr(at + 2, end - at - 2), key);
        out += value.is_null() ? "" : value.shown();
        at = end;
      } else {
        out += written[at];
      }
    }
    return out;
  }

  static Value literal(std::string text) {
    const size_t from = text.find_first_not_of(' ');
    text.erase(0, from == std::string::npos ? text.size() : from);
    if (text.size() > 1 && (text[0] == '"' || text[0] == '\'') && text.back() == text[0])
      return scalar(text.substr(1, text.size() - 2));
    if (text.empty() || text == "null" || text == "[]" || text == "{}") return {};
    return scalar(std::move(text));
  }

  /// What stands between ${ and }.
  Value reference(const std::string& inside, const std::string& key) {
    const size_t colon = inside.find(':');
    const std::string kind = colon == std::string::npos ? "" : inside.substr(0, colon);
    std::string name = colon == std::string::npos ? inside : inside.substr(colon + 1);
    Value otherwise;
    if (const size_t comma = name.find(','); comma != std::string::npos) {
      otherwise = value(literal(name.substr(comma + 1)), key);
      name.resize(comma);
    }
    if (kind == "oc.env") {
      const auto found = environment_(name);
      return found ? scalar(*found) : otherwise;
    }
    if (!kind.empty() && kind != "oc.select") return otherwise;
    name = absolute(name, key);
    const Setting* found = settings_.find(name);
    if (!found || depth_ == kMaxDepth) return otherwise;
    ++depth_;
    const Value result = value(found->value, name);
    --depth_;
    return result;
  }

  /// ".b" is beside `key`, "..b" beside its table.
  static std::string absolute(const std::string& name, const std::string& key) {
    const size_t dots = std::min(name.find_first_not_of('.'), name.size());
    std::string folder = key;
    for (size_t i = 0; i < dots; ++i) {
      const size_t dot = folder.rfind('.');
      folder.resize(dot == std::string::npos ? 0 : dot);
    }
    if (dots == 0) return name;
    return folder.empty() ? name.substr(dots) : folder + "." + name.substr(dots);
  }

  const Settings& settings_;
  const Environment& environment_;
  int depth_ = 0;
};

}  // namespace

void resolve_interpolations(Settings& settings, const Environment& environment) {
  std::vector<Value> values;
  Resolver resolver(settings, environment);
  for (const Setting& setting : settings.settings)
    values.push_back(resolver.value(setting.value, setting.key));
  for (size_t i = 0; i < values.size(); ++i) settings.settings[i].value = std::move(values[i]);
}

}  // namespace trireme::verl
