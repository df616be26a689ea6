// Where names live. A loop, macro or captured block has a frame of its own, an if has none; what a frame
// assigns stays in it. A name that a frame assigns anywhere is the frame's own from its beginning: it begins
// as a copy of the outer one, unset, or, where only a branch assigns it, as what the caller gave.
#include <fmt/format.h>

#include <set>

#include "trainer/jinja/filters.h"
#include "trainer/jinja/parser.h"
#include "trainer/jinja/tests.h"

namespace trireme::jinja {

int Scope::find(std::string_view name) const {
  for (size_t i = 0; i < variables.size(); ++i)
    if (variables[i].name == name) return static_cast<int>(i);
  return -1;
}

namespace {

using Body = std::vector<StatementPtr>;

struct Place {
  int frames_out = -1, slot = -1;
  bool found() const { return slot >= 0; }
};

// The names of a frame while they are gathered.
class Names {
 public:
  explicit Names(const Names* outer) : outer_(outer), copied_(outer ? outer->copied_ : &own_copied_) {}
  Names(const Names& other)
      : outer_(other.outer_), copied_(other.copied_), scope_(other.scope_), stored_(other.stored_) {
    if ((*copied_ += scope_.variables.size()) > kMaxCopied) too_many();
  }
  Names& operator=(const Names&) = delete;

  const Scope& scope() const { return scope_; }

  Place find(std::string_view name) const {
    Place place{0, -1};
    for (const Names* names = this; names; names = names->outer_, ++place.frames_out)
      if ((place.slot = names->scope_.find(name)) >= 0) return place;
    return {};
  }

  int declare_parameter(const std::string& name) {
    stored_.insert(name);
    return define({name, Scope::Begin::parameter});
  }

  void load(const std::string& name) {
    if (!find(name).found()) define({name, Scope::Begin::resolve});
  }

  void store(const std::string& name) {
    stored_.insert(name);
    if (scope_.find(name) < 0) define(from_outside(name, Scope::Begin::unset));
  }

  void merge_branches(const std::vector<Names>& branches) {
    std::set<std::string> stored;
    for (const Names& branch : branches) stored.insert(branch.stored_.begin(), branch.stored_.end());
    for (const std::string& name : stored_) stored.erase(name);
    for (const Names& branch : branches) {
      for (const auto& variable : branch.scope_.variables) define(variable);
      stored_.insert(branch.stored_.begin(), branch.stored_.end());
    }
    for (const std::string& name : stored) define(from_outside(name, Scope::Begin::resolve));
  }

 private:
  int define(Scope::Variable variable) {
    const int slot = scope_.find(variable.name);
    if (slot < 0) {
      if (scope_.variables.size() == kMaxVariables) too_many();
      scope_.variables.push_back(std::move(variable));
      return static_cast<int>(scope_.variables.size()) - 1;
    }
    scope_.variables[static_cast<size_t>(slot)] = std::move(variable);
    return slot;
  }

  Scope::Variable from_outside(const std::string& name, Scope::Begin otherwise) const {
    const Place place = outer_ ? outer_->find(name) : Place{};
    if (!place.found()) return {name, otherwise};
    return {name, Scope::Begin::alias, place.frames_out + 1, place.slot};
  }

  // No person's template comes near; what is quadratic below stays quick.
  static constexpr size_t kMaxVariables = 1000, kMaxCopied = 1'000'000;
  [[noreturn]] static void too_many() { throw SyntaxError{1, "the template has too many variables"}; }

  const Names* outer_;
  size_t own_copied_ = 0;
  size_t* copied_;  // variables that were copied for branches, in all
  Scope scope_;
  std::set<std::string> stored_;
};

void gather(const Expression* node, Names& names) {
  if (!node) return;
  if (node->kind == Expression::Kind::name) names.load(node->name);
  for (const auto& child : node->children) gather(child.get(), names);
  gather(node->more_positional.get(), names);
  gather(node->more_named.get(), names);
}

void gather(const Target& target, Names& names, bool parameter) {
  for (const Target& nested : target.nested) gather(nested, names, parameter);
  if (target.is_tuple) return;
  if (!target.attribute.empty()) {
    names.load(target.name);
  } else if (parameter) {
    names.declare_parameter(target.name);
  } else {
    names.store(target.name);
  }
}

void gather(const Body& body, Names& names);

void gather_branch(const Statement& statement, Names& names) {
  const auto& branches = statement.branches;
  gather(branches[0].condition.get(), names);
  std::vector<Names> copies(3, names);  // if, elif, else
  gather(branches[0].body, copies[0]);
  for (size_t i = 1; i < branches.size(); ++i) {
    if (!branches[i].condition) {
      gather(branches[i].body, copies[2]);
      continue;
    }
    gather(branches[i].condition.get(), copies[1]);
    std::vector<Names> inner(1, copies[1]);
    gather(branches[i].body, inner[0]);
    copies[1].merge_branches(inner);
  }
  names.merge_branches(copies);
}

// What a statement means to the frame that it stands in.
void gather(const Body& body, Names& names) {
  for (const auto& statement : body) {
    switch (statement->kind) {
      case Statement::Kind::branch:
        gather_branch(*statement, names);
        break;
      case Statement::Kind::macro:
        names.store(statement->text);
        break;
      case Statement::Kind::capture:
        gather(statement->targets[0], names, false);
        break;
      case Statement::Kind::assign:
        gather(statement->expressions[0].get(), names);
        gather(statement->targets[0], names, false);
        break;
      default:
        for (const auto& expression : statement->expressions) gather(expression.get(), names);
    }
  }
}

bool mentions(const Expression* node, std::string_view name) {
  if (!node) return false;
  if (node->kind == Expression::Kind::name && node->name == name) return true;
  for (const auto& child : node->children)
    if (mentions(child.get(), name)) return true;
  return mentions(node->more_positional.get(), name) || mentions(node->more_named.get(), name);
}

bool mentions(const Body& body, std::string_view name) {
  for (const auto& statement : body) {
    for (const auto& expression : statement->expressions)
      if (mentions(expression.get(), name)) return true;
    for (const auto& branch : statement->branches)
      if (mentions(branch.condition.get(), name) || mentions(branch.body, name)) return true;
    for (const auto& parameter : statement->parameters)
      if (mentions(parameter.standard.get(), name)) return true;
    if (mentions(statement->condition.get(), name) || mentions(statement->body, name) ||
        mentions(statement->otherwise, name))
      return true;
  }
  return false;
}

class Resolver {
 public:
  void body(Body& body, const Names& names) {
    for (auto& one : body) statement(*one, names);
  }

 private:
  [[noreturn]] static void fail(int line, std::string message) {
    throw SyntaxError{line, std::move(message)};
  }

  void statement(Statement& s, const Names& names) {
    using Kind = Statement::Kind;
    switch (s.kind) {
      case Kind::text:
      case Kind::break_loop:
      case Kind::continue_loop:
        return;
      case Kind::output:
        return expression(s.expressions[0].get(), names);
      case Kind::assign:
        target(s.targets[0], names);
        return expression(s.expressions[0].get(), names);
      case Kind::branch:
        return branch(s, names);
      case Kind::loop:
        return loop(s, names);
      case Kind::macro: {
        const Place place = names.find(s.text);
        s.frames_out = place.frames_out;
        s.slot = place.slot;
        return function(s, names);
      }
      case Kind::call:
        expression(s.expressions[0].get(), names);
        return function(s, names);
      case Kind::with:
        return with(s, names);
      case Kind::capture:
        target(s.targets[0], names);
        return filtered(s, names);
      case Kind::filtered:
      case Kind::generation:
        return filtered(s, names);
    }
  }

  void branch(Statement& s, const Names& names) {
    ++branches_;
    for (auto& one : s.branches) {
      expression(one.condition.get(), names);
      body(one.body, names);
    }
    --branches_;
  }

  void loop(Statement& s, const Names& names) {
    expression(s.expressions[0].get(), names);
    if (assigns_loop(s.targets[0])) fail(s.line, "a loop cannot assign to 'loop'");
    Names inner(&names);
    if (mentions(s.body, "loop")) s.loop_slot = inner.declare_parameter("loop");
    gather(s.targets[0], inner, true);
    gather(s.body, inner);
    if (s.condition) {
      Names condition(&names);
      gather(s.targets[0], condition, true);
      gather(s.condition.get(), condition);
      expression(s.condition.get(), condition);
      s.condition_scope = condition.scope();
      s.targets.push_back(s.targets[0]);  // in slots of the condition's own frame
      place_target(s.targets[1], condition);
    }
    target(s.targets[0], inner);
    ++loops_;
    body(s.body, inner);
    --loops_;
    s.scope = inner.scope();
    Names otherwise(&names);
    gather(s.otherwise, otherwise);
    body(s.otherwise, otherwise);
    s.otherwise_scope = otherwise.scope();
  }

  void function(Statement& s, const Names& names) {
    Names inner(&names);
    for (auto& parameter : s.parameters) parameter.slot = inner.declare_parameter(parameter.name);
    const auto special = [&](const char* name) {
      for (const auto& parameter : s.parameters)
        if (parameter.name == name) return -1;
      return mentions(s.body, name) ? inner.declare_parameter(name) : -1;
    };
    s.caller_slot = special("caller");
    s.kwargs_slot = special("kwargs");
    s.varargs_slot = special("varargs");
    for (auto& parameter : s.parameters) gather(parameter.standard.get(), inner);
    gather(s.body, inner);
    for (auto& parameter : s.parameters) expression(parameter.standard.get(), inner);
    const int loops = std::exchange(loops_, 0);
    body(s.body, inner);
    loops_ = loops;
    s.scope = inner.scope();
  }

  void with(Statement& s, const Names& names) {
    for (auto& one : s.expressions) expression(one.get(), names);
    Names inner(&names);
    for (auto& one : s.targets) gather(one, inner, true);
    gather(s.body, inner);
    for (auto& one : s.targets) target(one, inner);
    body(s.body, inner);
    s.scope = inner.scope();
  }

  void filtered(Statement& s, const Names& names) {
    Names inner(&names);
    gather(s.body, inner);
    for (auto& one : s.expressions) gather(one.get(), inner);
    body(s.body, inner);
    for (auto& one : s.expressions) expression(one.get(), inner);
    s.scope = inner.scope();
  }

  static bool assigns_loop(const Target& t) {
    for (const Target& nested : t.nested)
      if (assigns_loop(nested)) return true;
    return !t.is_tuple && t.attribute.empty() && t.name == "loop";
  }

  void target(Target& t, const Names& names) const {
    if (loops_ > 0 && assigns_loop(t)) fail(t.line, "within a loop nothing can be assigned to 'loop'");
    place_target(t, names);
  }

  static void place_target(Target& t, const Names& names) {
    for (Target& nested : t.nested) place_target(nested, names);
    if (t.is_tuple) return;
    const Place place = names.find(t.name);
    t.frames_out = place.frames_out;
    t.slot = place.slot;
  }

  void expression(Expression* node, const Names& names) {
    if (!node) return;
    using Kind = Expression::Kind;
    if (node->kind == Kind::name) {
      const Place place = names.find(node->name);
      node->frames_out = place.frames_out;
      node->slot = place.slot;
    }
    // Within a branch it is an error only when it is reached: templates ask for what may not be there.
    const bool conditional = node->kind == Kind::conditional;
    if (branches_ == 0 && node->kind == Kind::filter && !is_filter(node->name))
      fail(node->line, unknown_filter(node->name));
    if (branches_ == 0 && node->kind == Kind::test && !is_test(node->name))
      fail(node->line, unknown_test(node->name));
    branches_ += conditional;
    for (auto& child : node->children) expression(child.get(), names);
    expression(node->more_positional.get(), names);
    expression(node->more_named.get(), names);
    branches_ -= conditional;
  }

  int branches_ = 0, loops_ = 0;
};

}  // namespace

void resolve_names(std::vector<StatementPtr>& body, Scope& scope) {
  Names names(nullptr);
  gather(body, names);
  Resolver().body(body, names);
  scope = names.scope();
}

}  // namespace trireme::jinja
