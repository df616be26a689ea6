#include "trainer/jinja/text_format.h"

#include "trainer/jinja/operators.h"
#include "trainer/jinja/python_text.h"

namespace trireme::jinja {

namespace {

constexpr size_t kNone = std::string_view::npos;

void check_size(const std::string& out) {
  if (out.size() > Workspace::kMaxOutputBytes) reject("format makes too long a text");
}

// The values of text % value: a tuple's, one by one, else the value itself, once.
class PercentValues {
 public:
  PercentValues(const Value& value, Workspace& work) : value_(value), work_(work) {}

  Value next() {
    const bool is_tuple = value_.is(Kind::tuple);
    if (used_ == (is_tuple ? value_.as_list().size : 1)) reject("% has more marks than values");
    return is_tuple ? value_.as_list().items[used_++] : (++used_, value_);
  }

  Value named(std::string_view name) {
    if (!value_.is(Kind::dict)) reject("%({}) needs a mapping", name);
    const Value* found = find(value_.as_dict(), Value::string(name), work_);
    if (!found) reject("% has no value '{}'", name);
    return *found;
  }

  // What can be looked up in may be left over; other values may not.
  void check_used() const {
    if (value_.is(Kind::tuple) && used_ < value_.as_list().size) reject("% has more values than marks");
    const bool mapping = value_.is(Kind::dict) || value_.is(Kind::list) || value_.is(Kind::range) ||
                         value_.is(Kind::undefined) || value_.is(Kind::tuple);
    if (!mapping && used_ == 0) reject("% has more values than marks");
  }

 private:
  const Value& value_;
  Workspace& work_;
  size_t used_ = 0;
};

void append_percent(std::string& out, char mark, const Value& value, Workspace& work) {
  if (mark == 's') return append_text(out, value, work);
  if (mark == 'r') return append_repr(out, value, work);
  if (mark != 'd' && mark != 'i')
    reject("%{} is outside the part of Jinja that is supported; %s, %r, %d and %% are", mark);
  if (value.is(Kind::real)) {
    const double number = value.as_real();
    if (!(number > -9.2e18 && number < 9.2e18)) reject("%{} of {}", mark, number);
    out += std::to_string(static_cast<int64_t>(number));
  } else if (value.is_whole()) {
    out += std::to_string(value.as_integer());
  } else {
    reject("%{} needs a number, not a {}", mark, type_name(value));
  }
}

}  // namespace

std::string format_percent(std::string_view text, const Value& value, Workspace& work) {
  PercentValues values(value, work);
  std::string out;
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '%') {
      out += text[at];
      continue;
    }
    if (++at == text.size()) reject("% stands at the end of the text");
    if (text[at] == '%') {
      out += '%';
      continue;
    }
    Value one;
    if (text[at] == '(') {
      const size_t end = text.find(')', at);
      if (end == kNone || end + 1 == text.size()) reject("%( is not closed");
      one = values.named(text.substr(at + 1, end - at - 1));
      at = end + 1;
    } else {
      one = values.next();
    }
    append_percent(out, text[at], one, work);
    check_size(out);
  }
  values.check_used();
  return out;
}

std::string format_braces(std::string_view text, const Arguments& arguments, Workspace& work) {
  std::string out, storage;
  size_t next = 0;
  bool numbered = false;
  for (size_t at = 0; at < text.size(); ++at) {
    const char here = text[at];
    const char after = at + 1 < text.size() ? text[at + 1] : '\0';
    if (here == '}' && after != '}') reject("format: a single }} in the text");
    if (here == '}' || (here == '{' && after == '{')) ++at;
    if (here != '{' || after == '{') {
      out += here;
      continue;
    }
    const size_t end = text.find('}', at);
    if (end == kNone) reject("format: a {{ is not closed");
    const auto field = text.substr(at + 1, end - at - 1);
    at = end;
    const Value* found = nullptr;
    if (field.find_first_not_of("0123456789") == kNone && field.size() < 6) {
      if (field.empty() ? numbered : next > 0) reject("format: fields with and without numbers");
      numbered = !field.empty();
      const size_t index = field.empty() ? next++ : static_cast<size_t>(std::stoul(std::string(field)));
      if (index < arguments.positional.size()) found = &arguments.positional[index];
    } else if (field.find_first_of("!:.[{") != kNone) {
      reject("format: the field {{{}}} is outside the part of Jinja that is supported", field);
    }
    for (const auto& [name, value] : arguments.named)
      if (name == field) found = &value;
    if (!found) reject("format: there is no value for {{{}}}", field);
    out += view_text(*found, storage, work);
    check_size(out);
  }
  return out;
}

}  // namespace trireme::jinja
