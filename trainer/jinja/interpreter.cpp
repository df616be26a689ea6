#include "trainer/jinja/interpreter.h"

#include "trainer/jinja/interpreter_depth.h"
#include "trainer/jinja/python_text.h"

namespace trireme::jinja {

Interpreter::Interpreter(const Program& program, std::vector<Entry> variables, Workspace& work)
    : program_(program), work_(work), variables_(std::move(variables)) {
  for (const Entry& function : template_functions(work)) variables_.push_back(function);
}

void Interpreter::run() {
  Frame* root = make_frame(program_.scope(), nullptr);
  enter(*root);
  run(program_.body(), *root);
}

// ---- frames

Frame* Interpreter::make_frame(const Scope& scope, Frame* outer) {
  return work_.make(Frame{&scope, outer, work_.slots(scope.variables.size())});
}

Value Interpreter::look_up(std::string_view name) {
  for (const Entry& variable : variables_)
    if (variable.key.as_string() == name) return variable.value;
  return {};
}

void Interpreter::enter(Frame& frame) {
  for (size_t i = 0; i < frame.slots.size(); ++i) {
    const Scope::Variable& variable = frame.scope->variables[i];
    switch (variable.begin) {
      case Scope::Begin::parameter:
        break;
      case Scope::Begin::resolve:
        frame.slots[i] = look_up(variable.name);
        break;
      case Scope::Begin::alias:
        frame.slots[i] = slot_of(variable.frames_out, variable.slot, frame);
        break;
      case Scope::Begin::unset:
        frame.slots[i] = Value();
    }
  }
}

void Interpreter::leave(Frame& frame) {
  for (Value& slot : frame.slots) slot = Value();
}

Value& Interpreter::slot_of(int frames_out, int slot, Frame& frame) {
  Frame* at = &frame;
  for (; frames_out > 0; --frames_out) at = at->outer;
  return at->slots[static_cast<size_t>(slot)];
}

// ---- statements

Interpreter::Flow Interpreter::run(const Body& body, Frame& frame) {
  const Depth depth(*this);
  for (const auto& statement : body)
    if (const Flow flow = run(*statement, frame); flow != Flow::next) return flow;
  return Flow::next;
}

Interpreter::Flow Interpreter::run(const Statement& s, Frame& frame) {
  using Kind = Statement::Kind;
  work_.spend(1);
  line_ = s.line;
  switch (s.kind) {
    case Kind::text:
      write(s.text);
      return Flow::next;
    case Kind::output:
      write(evaluate(*s.expressions[0], frame));
      return Flow::next;
    case Kind::branch:
      return run_branch(s, frame);
    case Kind::loop:
      return run_loop(s, frame);
    case Kind::assign:
      check_spaces(s.targets[0], frame);
      assign(s.targets[0], evaluate(*s.expressions[0], frame), frame);
      return Flow::next;
    case Kind::capture:
      return run_capture(s, frame);
    case Kind::macro: {
      const Callable macro{Callable::What::macro, s.text, {}, &s, &frame};
      slot_of(s.frames_out, s.slot, frame) = Value::callable(work_.make(macro));
      return Flow::next;
    }
    case Kind::call: {
      const Callable caller{Callable::What::macro, {}, {}, &s, &frame};
      const Value value = Value::callable(work_.make(caller));
      write_text(evaluate_call(*s.expressions[0], frame, &value));
      return Flow::next;
    }
    case Kind::with:
      return run_with(s, frame);
    case Kind::filtered:
      return run_filtered(s, frame);
    case Kind::generation:
      return run_generation(s, frame);
    case Kind::break_loop:
      return Flow::stop;
    case Kind::continue_loop:
      return Flow::again;
  }
  return Flow::next;
}

Interpreter::Flow Interpreter::run_branch(const Statement& branch, Frame& frame) {
  for (const auto& one : branch.branches)
    if (!one.condition || truth(evaluate(*one.condition, frame))) return run(one.body, frame);
  return Flow::next;
}

class Interpreter::ConditionalFeed final : public LoopFeed {
 public:
  ConditionalFeed(Interpreter& interpreter, const Statement& loop, const List& items, Frame& outer)
      : interpreter_(interpreter), loop_(loop), items_(items) {
    frame_ = interpreter.make_frame(loop.condition_scope, &outer);
    interpreter.enter(*frame_);
  }

  bool next(Value* item) override {
    while (at_ < items_.size) {
      *item = items_.items[at_++];
      interpreter_.assign(loop_.targets[1], *item, *frame_);
      if (truth(interpreter_.evaluate(*loop_.condition, *frame_))) return true;
    }
    return false;
  }

 private:
  Interpreter& interpreter_;
  const Statement& loop_;
  List items_;
  Frame* frame_;
  size_t at_ = 0;
};

Interpreter::Flow Interpreter::run_loop(const Statement& loop, Frame& frame) {
  const List items = iterate(evaluate(*loop.expressions[0], frame), work_);
  std::optional<ConditionalFeed> feed;
  if (loop.condition) feed.emplace(*this, loop, items, frame);
  LoopState& state = *work_.loop(feed ? List{} : items, feed ? &*feed : nullptr);
  Frame& inner = *make_frame(loop.scope, &frame);
  bool completed = false;
  for (; state.has(state.index0); ++state.index0) {
    work_.spend(1);
    if (loop.loop_slot >= 0) inner.slots[static_cast<size_t>(loop.loop_slot)] = Value::loop(&state);
    assign(loop.targets[0], state.items[state.index0], inner);
    enter(inner);
    const Flow flow = run(loop.body, inner);
    if (flow == Flow::stop) break;
    completed |= flow == Flow::next;
  }
  leave(inner);
  state.feed = nullptr;
  // As Jinja compiles it: a body that was never run to its end counts as a loop over nothing.
  if (completed || loop.otherwise.empty()) return Flow::next;
  Frame& otherwise = *make_frame(loop.otherwise_scope, &frame);
  enter(otherwise);
  const Flow flow = run(loop.otherwise, otherwise);
  leave(otherwise);
  return flow;
}

Interpreter::Flow Interpreter::run_with(const Statement& with, Frame& frame) {
  Frame& inner = *make_frame(with.scope, &frame);
  enter(inner);
  for (size_t i = 0; i < with.targets.size(); ++i)
    assign(with.targets[i], evaluate(*with.expressions[i], frame), inner);
  const Flow flow = run(with.body, inner);
  leave(inner);
  return flow;
}

Interpreter::Flow Interpreter::capture(const Statement& s, Frame& frame, Frame** inner, std::string* text) {
  *inner = make_frame(s.scope, &frame);
  enter(**inner);
  std::string* const out = std::exchange(out_, text);
  const Flow flow = run(s.body, **inner);
  out_ = out;
  return flow;
}

Interpreter::Flow Interpreter::run_capture(const Statement& set, Frame& frame) {
  Frame* inner = nullptr;
  std::string text;
  if (const Flow flow = capture(set, frame, &inner, &text); flow != Flow::next) return flow;
  Value value = work_.string(text);
  if (!set.expressions.empty()) value = evaluate_block_filter(*set.expressions[0], value, *inner);
  check_spaces(set.targets[0], frame);
  assign(set.targets[0], value, frame);
  leave(*inner);
  return Flow::next;
}

Interpreter::Flow Interpreter::run_filtered(const Statement& filtered, Frame& frame) {
  Frame* inner = nullptr;
  std::string text;
  if (const Flow flow = capture(filtered, frame, &inner, &text); flow != Flow::next) return flow;
  write_text(evaluate_block_filter(*filtered.expressions[0], work_.string(text), *inner));
  leave(*inner);
  return Flow::next;
}

Interpreter::Flow Interpreter::run_generation(const Statement& generation, Frame& frame) {
  Frame* inner = nullptr;
  std::string text;
  capture(generation, frame, &inner, &text);
  leave(*inner);
  // Within a macro or a captured block this is the place of the whole, as transformers counts it.
  generation_.emplace_back(text_.size(), text_.size() + text.size());
  write(text);
  return Flow::next;
}

void Interpreter::check_spaces(const Target& target, Frame& frame) {
  for (const Target& nested : target.nested) check_spaces(nested, frame);
  if (!target.attribute.empty() && !slot_of(target.frames_out, target.slot, frame).is(Kind::space))
    reject("'{}' is no namespace, so its '{}' cannot be set", target.name, target.attribute);
}

void Interpreter::assign(const Target& target, const Value& value, Frame& frame) {
  work_.spend(1);
  if (target.is_tuple) {
    const List items = iterate(value, work_);
    if (items.size != target.nested.size())
      reject("{} names for the {} items of a {}", target.nested.size(), items.size, type_name(value));
    for (size_t i = 0; i < items.size; ++i) assign(target.nested[i], items.items[i], frame);
    return;
  }
  Value& slot = slot_of(target.frames_out, target.slot, frame);
  if (target.attribute.empty()) {
    slot = value;
    return;
  }
  if (target.attribute[0] == '_') reject("a namespace holds no names that begin with an underscore");
  auto& entries = slot.as_space().entries;
  for (Entry& entry : entries) {
    if (entry.key.as_string() != target.attribute) continue;
    entry.value = value;
    return;
  }
  entries.push_back({Value::string(target.attribute), value});
}

void Interpreter::write(std::string_view text) {
  work_.spend(text.size() / 256);
  written_ += text.size();
  if (out_->size() + text.size() > Workspace::kMaxOutputBytes || written_ > Workspace::kMaxBytes)
    reject("the template writes more than {} MB", Workspace::kMaxOutputBytes >> 20);
  *out_ += text;
}

void Interpreter::write_text(const Value& value) {
  if (!value.is(Kind::string)) reject("a block can only write text, not a {}", type_name(value));
  write(value.as_string());
}

void Interpreter::write(const Value& value) {
  std::string storage;
  write(view_text(value, storage, work_));
}

}  // namespace trireme::jinja
