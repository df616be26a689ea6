// What signs, commands and words of a notation stand for: read by notation.cpp alone.
#pragma once

#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace trireme::answers {

// What other signs and commands are the same as, in the spelling that the rest of this file knows.
inline constexpr std::pair<std::string_view, std::string_view> kSigns[] = {{"\u2212", "-"},
                                                                           {"\u2013", "-"},
                                                                           {"\u2014", "-"},
                                                                           {"\u00d7", " \\times "},
                                                                           {"\u00b7", " \\cdot "},
                                                                           {"\u22c5", " \\cdot "},
                                                                           {"\u2219", " \\cdot "},
                                                                           {"\u00f7", "/"},
                                                                           {"\u2044", "/"},
                                                                           {"\u2215", "/"},
                                                                           {"\u03c0", " \\pi "},
                                                                           {"\u221e", " \\infty "},
                                                                           {"\u221a", " \\sqrt "},
                                                                           {"\u2264", " \\le "},
                                                                           {"\u2265", " \\ge "},
                                                                           {"\u2260", " \\ne "},
                                                                           {"\u2a7d", " \\le "},
                                                                           {"\u2a7e", " \\ge "},
                                                                           {"\u222a", " \\cup "},
                                                                           {"\u2229", " \\cap "},
                                                                           {"\u2208", " \\in "},
                                                                           {"\u00b0", "^\\circ "},
                                                                           {"\u00b1", " \\pm "},
                                                                           {"\u00bd", "\\frac{1}{2}"},
                                                                           {"\u00bc", "\\frac{1}{4}"},
                                                                           {"\u00be", "\\frac{3}{4}"},
                                                                           {"\u2153", "\\frac{1}{3}"},
                                                                           {"\u2154", "\\frac{2}{3}"},
                                                                           {"\u00b2", "^2"},
                                                                           {"\u00b3", "^3"},
                                                                           {"\u2205", " \\emptyset "},
                                                                           {"\u211d", " \\mathbb{R} "},
                                                                           {"\u00a0", " "},
                                                                           {"\u202f", " "},
                                                                           {"\u2009", " "},
                                                                           {"\u2032", "'"},
                                                                           {"\u03b8", " \\theta "},
                                                                           {"\u03b1", " \\alpha "},
                                                                           {"\u03b2", " \\beta "},
                                                                           {"\u20ac", ""},
                                                                           {"\u00a3", ""},
                                                                           {"\u00a5", ""},
                                                                           {"\u20b9", ""},
                                                                           {"{,}", ","},
                                                                           {",\\!", ","},
                                                                           {"**", "^"},
                                                                           {"$", ""},
                                                                           {"\\$", ""},
                                                                           {"\\(", " "},
                                                                           {"\\)", " "},
                                                                           {"<=", " \\le "},
                                                                           {">=", " \\ge "},
                                                                           {"!=", " \\ne "},
                                                                           {"\\[", " "},
                                                                           {"\\]", " "}};

// \name: "" is left out; " " is a space; a mark; or else another name of a function or symbol.
inline const std::unordered_map<std::string_view, std::string_view> kCommands = {
    {"left", ""},       {"right", ""},        {"big", ""},        {"Big", ""},          {"bigg", ""},
    {"Bigg", ""},       {"bigl", ""},         {"bigr", ""},       {"displaystyle", ""}, {"textstyle", ""},
    {"limits", ""},     {"quad", " "},        {"qquad", " "},     {"dots", "..."},      {"ldots", "..."},
    {"cdots", "..."},   {"cdot", "*"},        {"times", "*"},     {"ast", "*"},         {"div", "/"},
    {"le", "<="},       {"leq", "<="},        {"leqslant", "<="}, {"ge", ">="},         {"geq", ">="},
    {"geqslant", ">="}, {"lt", "<"},          {"gt", ">"},        {"ne", "!="},         {"neq", "!="},
    {"in", "in"},       {"cup", "cup"},       {"cap", "cap"},     {"pm", "pm"},         {"mp", "pm"},
    {"lvert", "|"},     {"rvert", "|"},       {"vert", "|"},      {"mid", "|"},         {"lbrace", "\\{"},
    {"rbrace", "\\}"},  {"langle", "("},      {"rangle", ")"},    {"circ", "deg"},      {"degree", "deg"},
    {"colon", ":"},     {"lfloor", "floor("}, {"rfloor", ")"},    {"lceil", "ceil("},   {"rceil", ")"},
    {"begin", "begin"}, {"end", "end"},       {"hline", ""},      {"hfill", " "},       {"nonumber", ""},
    {"lbrack", "["},    {"rbrack", "]"},      {"lparen", "("},    {"rparen", ")"},      {"to", "->"}};
inline const std::unordered_map<std::string_view, std::string_view> kFunctions = {
    {"frac", "frac"},   {"dfrac", "frac"},   {"tfrac", "frac"},   {"cfrac", "frac"},  {"sqrt", "sqrt"},
    {"sin", "sin"},     {"cos", "cos"},      {"tan", "tan"},      {"cot", "cot"},     {"sec", "sec"},
    {"csc", "csc"},     {"arcsin", "asin"},  {"arccos", "acos"},  {"arctan", "atan"}, {"asin", "asin"},
    {"acos", "acos"},   {"atan", "atan"},    {"sinh", "sinh"},    {"cosh", "cosh"},   {"tanh", "tanh"},
    {"log", "log"},     {"ln", "ln"},        {"lg", "log10"},     {"exp", "exp"},     {"abs", "abs"},
    {"binom", "binom"}, {"dbinom", "binom"}, {"tbinom", "binom"}, {"cbrt", "cbrt"},   {"floor", "floor"},
    {"ceil", "ceil"}};
inline const std::unordered_map<std::string_view, std::string_view> kSymbols = {
    {"pi", "pi"},        {"infty", "infinity"},    {"infinity", "infinity"},
    {"inf", "infinity"}, {"emptyset", "emptyset"}, {"varnothing", "emptyset"}};
inline const std::unordered_set<std::string_view> kGreek = {
    "alpha", "beta", "gamma", "delta", "epsilon", "varepsilon", "zeta",   "eta", "theta", "lambda", "mu",
    "nu",    "xi",   "rho",   "sigma", "tau",     "phi",        "varphi", "chi", "psi",   "omega",  "ell"};
inline const std::unordered_set<std::string_view> kTextCommands = {
    "text", "textbf", "textit", "textrm", "mathrm", "mathbf", "mathit", "mathsf", "mbox",    "operatorname",
    "rm",   "bf",     "it",     "textsf", "emph",   "bold",   "hbox",   "mathbb", "mathcal", "boldsymbol"};
// Short words that are no products of letters.
inline const std::unordered_set<std::string_view> kWords = {
    "or", "is", "in", "of", "to", "and", "at",   "am",  "pm",  "cm",  "mm",   "km",  "kg",  "mg", "ml", "ft",
    "hr", "mi", "lb", "oz", "yd", "as",  "mph",  "kph", "sq",  "an",  "if",   "no",  "on",  "by", "so", "th",
    "st", "nd", "rd", "kw", "hz", "ms",  "tbsp", "tsp", "lbs", "hrs", "km/h", "sec", "min", "yes"};

}  // namespace trireme::answers
