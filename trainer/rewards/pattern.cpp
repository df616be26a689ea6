#define PCRE2_CODE_UNIT_WIDTH 8
#include "trainer/rewards/pattern.h"

#include <pcre2.h>

#include <array>

#include "runtime/base/error.h"

namespace trireme::rewards {
namespace {

constexpr uint32_t kMaxSteps = 2'000'000, kMaxHeapKib = 20'000;

using MatchData = std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)>;
using MatchContext = std::unique_ptr<pcre2_match_context, decltype(&pcre2_match_context_free)>;

}  // namespace

struct Pattern::Code {
  std::unique_ptr<pcre2_code, decltype(&pcre2_code_free)> whole{nullptr, pcre2_code_free};
  std::unique_ptr<pcre2_code, decltype(&pcre2_code_free)> part{nullptr, pcre2_code_free};

  // Below zero where there is no match, or none in time.
  int match(pcre2_code* code, std::string_view text, size_t from, pcre2_match_data* data) const {
    const MatchContext context(pcre2_match_context_create(nullptr), pcre2_match_context_free);
    pcre2_set_match_limit(context.get(), kMaxSteps);
    pcre2_set_heap_limit(context.get(), kMaxHeapKib);
    return pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from, 0, data,
                       context.get());
  }
};

Pattern::Pattern(const std::string& regex) : code_(std::make_unique<Code>()) {
  const auto compile = [&](const std::string& text, uint32_t options) {
    int error = 0;
    size_t at = 0;
    pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                                     PCRE2_DOTALL | options, &error, &at, nullptr);
    if (!code) {
      std::array<PCRE2_UCHAR, 256> reason{};
      pcre2_get_error_message(error, reason.data(), reason.size());
      fail(ErrorCode::invalid_config, "'{}' is no regular expression: {}, at character {}", regex,
           reinterpret_cast<const char*>(reason.data()), at + 1);
    }
    return code;
  };
  code_->part.reset(compile(regex, 0));
  code_->whole.reset(compile(regex, PCRE2_ANCHORED | PCRE2_ENDANCHORED));
}

Pattern::~Pattern() = default;
Pattern::Pattern(Pattern&&) noexcept = default;

bool Pattern::matches(std::string_view text) const {
  const MatchData data(pcre2_match_data_create_from_pattern(code_->whole.get(), nullptr),
                       pcre2_match_data_free);
  return code_->match(code_->whole.get(), text, 0, data.get()) >= 0;
}

std::optional<std::string> Pattern::last_in(std::string_view text) const {
  const MatchData data(pcre2_match_data_create_from_pattern(code_->part.get(), nullptr),
                       pcre2_match_data_free);
  const size_t* places = pcre2_get_ovector_pointer(data.get());
  std::optional<std::string> found;
  for (size_t from = 0; from <= text.size();) {
    const int groups = code_->match(code_->part.get(), text, from, data.get());
    if (groups < 0) break;
    const size_t group = groups > 1 && places[2] != PCRE2_UNSET ? 2 : 0;
    found = std::string(text.substr(places[group], places[group + 1] - places[group]));
    from = places[1] > from ? places[1] : from + 1;
  }
  return found;
}

}  // namespace trireme::rewards
