#include "trainer/text/stream_decoder.h"

#include <utility>

#include "trainer/text/utf8.h"

namespace trireme::text {

std::string StreamDecoder::add(int32_t id) {
  std::string bytes = std::move(unfinished_) + std::string(tokenizer_.bytes_of_token(id, skip_special_));
  const size_t size = bytes.size() - unfinished_utf8(bytes);
  unfinished_ = bytes.substr(size);
  bytes.resize(size);
  return replace_not_utf8(std::move(bytes));
}

std::string StreamDecoder::finish() {
  return replace_not_utf8(std::exchange(unfinished_, {}));
}

}  // namespace trireme::text
