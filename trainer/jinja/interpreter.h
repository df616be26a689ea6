// Runs a parsed template for one conversation. One object per rendering.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trainer/jinja/program.h"

namespace trireme::jinja {

/// The variables of a scope while it runs. In the workspace, so that macros may outlive what made them.
struct Frame {
  const Scope* scope;
  Frame* outer;
  std::span<Value> slots;
};

class Interpreter {
 public:
  /// `variables`: what the template may ask for by name; the functions of templates are added.
  Interpreter(const Program& program, std::vector<Entry> variables, Workspace& work);

  /// Throws TemplateError; line() is then where.
  void run();

  const std::string& text() const { return text_; }
  const std::vector<std::pair<size_t, size_t>>& generation() const { return generation_; }
  int line() const { return line_; }

 private:
  enum class Flow : uint8_t { next, stop, again };  // break and continue on their way to the loop
  struct Depth;
  class ConditionalFeed;
  using Body = std::vector<StatementPtr>;

  // Statements.
  Flow run(const Body& body, Frame& frame);
  Flow run(const Statement& statement, Frame& frame);
  Flow run_branch(const Statement& branch, Frame& frame);
  Flow run_loop(const Statement& loop, Frame& frame);
  Flow run_with(const Statement& with, Frame& frame);
  /// The body in a frame of its own, its text in `text` rather than written.
  Flow capture(const Statement& statement, Frame& frame, Frame** inner, std::string* text);
  Flow run_capture(const Statement& set, Frame& frame);
  Flow run_filtered(const Statement& filtered, Frame& frame);
  Flow run_generation(const Statement& generation, Frame& frame);
  void assign(const Target& target, const Value& value, Frame& frame);
  void check_spaces(const Target& target, Frame& frame);
  void write(const Value& value);
  void write(std::string_view text);
  void write_text(const Value& value);  // of blocks, which Jinja does not turn into text

  // Frames.
  Frame* make_frame(const Scope& scope, Frame* outer);
  void enter(Frame& frame);  // sets all but the parameters
  static void leave(Frame& frame);
  static Value& slot_of(int frames_out, int slot, Frame& frame);
  Value look_up(std::string_view name);

  // Expressions.
  Value evaluate(const Expression& node, Frame& frame);
  Value evaluate_operation(const Expression& node, Frame& frame);
  Value evaluate_name(const Expression& node, Frame& frame);
  Value evaluate_items(const Expression& node, Frame& frame);
  Value evaluate_dict(const Expression& node, Frame& frame);
  Value evaluate_slice(const Expression& node, Frame& frame);
  Value evaluate_comparison(const Expression& node, Frame& frame);
  Value evaluate_concatenation(const Expression& node, Frame& frame);
  Value evaluate_call(const Expression& node, Frame& frame, const Value* caller = nullptr);
  Value evaluate_filter(const Expression& node, const Value& value, Frame& frame);
  /// A filter of a block: its innermost value is the block's text.
  Value evaluate_block_filter(const Expression& node, const Value& text, Frame& frame);
  Arguments evaluate_arguments(const Expression& node, Frame& frame);
  Value call(const Value& callee, Arguments& arguments);
  Value call_macro(const Callable& macro, const Arguments& arguments);

  const Program& program_;
  Workspace& work_;
  std::vector<Entry> variables_;
  std::string text_;
  std::string* out_ = &text_;
  std::vector<std::pair<size_t, size_t>> generation_;
  size_t written_ = 0;  // in all, captured text counted again where it is written
  int line_ = 1;
  int depth_ = 0;
};

/// range, namespace, raise_exception, ...: what every template sees.
std::vector<Entry> template_functions(Workspace& work);
Value call_function(std::string_view name, const Arguments& arguments, Workspace& work);

}  // namespace trireme::jinja
