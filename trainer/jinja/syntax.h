// A parsed template: statements and expressions, and for each name the frame and slot it lives in.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trainer/jinja/operators.h"
#include "trainer/jinja/values.h"

namespace trireme::jinja {

struct Expression;
struct Statement;
using ExpressionPtr = std::unique_ptr<Expression>;
using StatementPtr = std::unique_ptr<Statement>;

struct Expression {
  enum class Kind : uint8_t {
    constant,
    name,
    list,
    tuple,
    dict,         // children: key, value, key, value, ...
    attribute,    // children[0].name
    subscript,    // children[0][children[1]]
    slice,        // children[0][children[1]:children[2]:children[3]], each null if left out
    call,         // children[0](arguments)
    filter,       // children[0] | name(arguments); children[0] null: of what the block wrote
    test,         // children[0] is name(arguments)
    negated,      // not children[0]
    minus,        // - children[0]
    plus,         // + children[0]
    both,         // children[0] and children[1]
    either,       // children[0] or children[1]
    conditional,  // children[1] if children[0] else children[2] (null: undefined)
    binary,       // children[0] op children[1]
    concatenation,
    comparison,  // children[0] ops[0] children[1] ops[1] children[2] ...
  };

  Kind kind;
  int line;
  int depth = 1;  // of the tree below
  std::string name;
  Value constant;
  BinaryOperator binary{};
  std::vector<Comparison> comparisons;
  std::vector<ExpressionPtr> children;
  size_t positional = 0;           // of a call's children, how many after the first are arguments by place;
  std::vector<std::string> named;  // the rest have these names
  ExpressionPtr more_positional;   // *expression
  ExpressionPtr more_named;        // **expression
  // Of names: frames outwards and the slot there.
  int frames_out = 0;
  int slot = 0;
};

/// What a statement assigns to.
struct Target {
  int line = 0;
  std::string name;            // of a variable or, with `attribute`, of a namespace
  std::string attribute;       // "" for a variable
  std::vector<Target> nested;  // a tuple, if is_tuple
  bool is_tuple = false;
  int frames_out = 0;
  int slot = 0;
};

/// The variables of one frame: how each begins.
struct Scope {
  enum class Begin : uint8_t { parameter, resolve, alias, unset };
  struct Variable {
    std::string name;
    Begin begin;
    int frames_out = 0, slot = 0;  // of aliases
  };
  std::vector<Variable> variables;
  int find(std::string_view name) const;  // -1 if it is not there
};

struct Statement {
  enum class Kind : uint8_t {
    text,
    output,      // expressions[0]
    branch,      // branches; the last may have no condition
    loop,        // for target in expressions[0] if condition: body, else otherwise
    assign,      // set target = expressions[0]
    capture,     // set target (filtered by expressions[0], if any) = body
    macro,       // name(parameters): body
    call,        // expressions[0] is the call, body the caller with its parameters
    with,        // targets = expressions: body
    filtered,    // expressions[0] applied to body
    generation,  // body, and where it stands is noted
    break_loop,
    continue_loop,
  };
  struct Branch {
    ExpressionPtr condition;  // null: else
    std::vector<StatementPtr> body;
  };
  struct Parameter {
    std::string name;
    ExpressionPtr standard;  // null: none
    int slot = 0;
  };

  Kind kind;
  int line;
  std::string text;  // or a macro's name
  std::vector<Target> targets;
  std::vector<ExpressionPtr> expressions;
  ExpressionPtr condition;
  std::vector<Branch> branches;
  std::vector<StatementPtr> body, otherwise;
  std::vector<Parameter> parameters;
  Scope scope, condition_scope, otherwise_scope;
  int frames_out = 0, slot = 0;  // where a macro is stored
  // Slots of the special names that the body uses, -1 for those that it does not.
  int loop_slot = -1, caller_slot = -1, varargs_slot = -1, kwargs_slot = -1;
};

}  // namespace trireme::jinja
