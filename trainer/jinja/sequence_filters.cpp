#include "trainer/jinja/sequence_filters.h"

#include <algorithm>

#include "trainer/jinja/attributes.h"
#include "trainer/jinja/filters.h"
#include "trainer/jinja/operators.h"
#include "trainer/jinja/python_text.h"
#include "trainer/jinja/tests.h"
#include "trainer/jinja/unicode_text.h"

namespace trireme::jinja {

namespace {

Value length(const FilterCall& c) {
  c.bound({});
  const auto size = length_of(c.value);
  if (!size) reject("a {} has no length", type_name(c.value));
  c.work.spend(c.value.is(Kind::string) ? *size / 64 : 0);
  return Value::integer(static_cast<int64_t>(*size));
}

Value first(const FilterCall& c) {
  c.bound({});
  if (c.value.is(Kind::iterator)) {
    Iterator& iterator = c.value.as_iterator();
    if (iterator.next < iterator.items.size) return iterator.items.items[iterator.next++];
    return c.work.undefined("there is no first item, the sequence was empty");
  }
  const List items = iterate(c.value, c.work);
  return items.size ? items.items[0] : c.work.undefined("there is no first item, the sequence was empty");
}

Value last(const FilterCall& c) {
  c.bound({});
  if (c.value.is(Kind::iterator))
    reject("the last of a {} is not known; make it a list first", type_name(c.value));
  const List items = iterate(c.value, c.work);
  return items.size ? items.items[items.size - 1]
                    : c.work.undefined("there is no last item, the sequence was empty");
}

Value join(const FilterCall& c) {
  const auto given = c.bound({"d", "attribute"});
  std::string mark_storage, storage, out;
  const auto mark = given[0].is(Kind::missing) ? "" : view_text(given[0], mark_storage, c.work);
  const List items = iterate(c.value, c.work);
  const bool by_path = !given[1].is(Kind::missing) && !given[1].is(Kind::none);
  for (size_t i = 0; i < items.size; ++i) {
    if (i) out += mark;
    out += view_text(by_path ? get_path(items.items[i], given[1], c.work) : items.items[i], storage, c.work);
    c.work.spend(1 + mark.size() / 64);
    if (out.size() > Workspace::kMaxOutputBytes) reject("join makes too long a text");
  }
  return c.work.string(out);
}

std::span<const Value> span_of(const List& list) {
  return {list.items, list.size};
}

Value list(const FilterCall& c) {
  c.bound({});
  return c.work.list(span_of(iterate(c.value, c.work)));
}

Value items(const FilterCall& c) {
  c.bound({});
  if (c.value.is(Kind::undefined)) return c.work.iterator({});
  if (!c.value.is(Kind::dict)) reject("items needs a mapping, not a {}", type_name(c.value));
  std::vector<Value> pairs;
  for (const Entry& entry : c.value.as_dict()) {
    const Value pair[] = {entry.key, entry.value};
    pairs.push_back(c.work.tuple(pair));
  }
  return c.work.iterator(pairs);
}

Value reverse(const FilterCall& c) {
  c.bound({});
  if (c.value.is(Kind::string))
    return slice(c.value, Value::none(), Value::none(), Value::integer(-1), c.work);
  const List items = iterate(c.value, c.work);
  std::vector<Value> reversed(items.begin(), items.end());
  std::reverse(reversed.begin(), reversed.end());
  return c.value.is(Kind::iterator) ? c.work.list(reversed) : c.work.iterator(reversed);
}

// The arguments after the first `skip`.
Arguments rest_of(const Arguments& arguments, size_t skip) {
  Arguments rest = arguments;
  rest.positional.erase(rest.positional.begin(), rest.positional.begin() + static_cast<std::ptrdiff_t>(skip));
  return rest;
}

Value map(const FilterCall& c) {
  if (!truth(c.value)) return c.work.iterator({});
  const auto& given = c.arguments.positional;
  std::vector<Value> results;
  if (given.empty()) {
    const auto named = c.bound({"attribute", "default"}, 1);
    const Value standard = named[1].is(Kind::none) ? Value() : named[1];
    for (const Value& item : iterate(c.value, c.work))
      results.push_back(get_path(item, named[0], c.work, standard));
  } else {
    const auto filter = need_text("map", given[0]);
    const Arguments rest = rest_of(c.arguments, 1);
    for (const Value& item : iterate(c.value, c.work))
      results.push_back(apply_filter(filter, item, rest, c.work));
  }
  return c.work.iterator(results);
}

Value pick(const FilterCall& c, bool by_path, bool keep) {
  if (!truth(c.value)) return c.work.iterator({});
  const auto& given = c.arguments.positional;
  if (by_path && given.empty()) reject("{} needs the name of an attribute", c.name);
  const size_t skip = by_path ? 1 : 0;
  const bool plain = given.size() <= skip;
  const Arguments rest = plain ? Arguments{} : rest_of(c.arguments, skip + 1);
  const auto test = plain ? std::string_view() : need_text(c.name, given[skip]);
  std::vector<Value> results;
  for (const Value& item : iterate(c.value, c.work)) {
    const Value tested = by_path ? get_path(item, given[0], c.work) : item;
    if ((plain ? truth(tested) : apply_test(test, tested, rest, c.work)) == keep) results.push_back(item);
  }
  return c.work.iterator(results);
}
Value select(const FilterCall& c) {
  return pick(c, false, true);
}
Value reject_items(const FilterCall& c) {
  return pick(c, false, false);
}
Value selectattr(const FilterCall& c) {
  return pick(c, true, true);
}
Value rejectattr(const FilterCall& c) {
  return pick(c, true, false);
}

Value sort_key(const Value& value, bool case_sensitive, Workspace& work) {
  return case_sensitive || !value.is(Kind::string) ? value : work.string(to_lower(value.as_string()));
}

// By keys made once per item, stable in either direction.
std::vector<Value> sorted(const List& items, const std::vector<Value>& keys, bool reverse, Workspace& work) {
  std::vector<size_t> order(items.size);
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return reverse ? less(keys[b], keys[a], work) : less(keys[a], keys[b], work);
  });
  std::vector<Value> out;
  for (size_t i : order) out.push_back(items.items[i]);
  return out;
}

Value sort(const FilterCall& c) {
  const auto given = c.bound({"reverse", "case_sensitive", "attribute"});
  const List items = iterate(c.value, c.work);
  std::vector<Value> keys;
  for (const Value& item : items) {
    std::vector<Value> parts;
    std::string_view paths = given[2].is(Kind::string) ? given[2].as_string() : std::string_view();
    while (true) {
      const auto path = paths.substr(0, paths.find(','));
      const Value found = get_path(item, given[2].is(Kind::string) ? Value::string(path) : given[2], c.work);
      parts.push_back(sort_key(found, truth(given[1]), c.work));
      if (path.size() == paths.size()) break;
      paths.remove_prefix(path.size() + 1);
    }
    keys.push_back(c.work.list(parts));
  }
  return c.work.list(sorted(items, keys, truth(given[0]), c.work));
}

Value dictsort(const FilterCall& c) {
  const auto given = c.bound({"case_sensitive", "by", "reverse"});
  if (c.value.is(Kind::undefined)) reject("{}", c.value.as_string());
  if (!c.value.is(Kind::dict)) reject("dictsort needs a mapping, not a {}", type_name(c.value));
  const auto by = given[1].is(Kind::missing) ? "key" : need_text("dictsort", given[1]);
  if (by != "key" && by != "value") reject("dictsort sorts by 'key' or 'value'");
  std::vector<Value> pairs, keys;
  for (const Entry& entry : c.value.as_dict()) {
    const Value pair[] = {entry.key, entry.value};
    pairs.push_back(c.work.tuple(pair));
    keys.push_back(sort_key(by == "key" ? entry.key : entry.value, truth(given[0]), c.work));
  }
  return c.work.list(sorted({pairs.data(), pairs.size()}, keys, truth(given[2]), c.work));
}

Value unique(const FilterCall& c) {
  const auto given = c.bound({"case_sensitive", "attribute"});
  std::vector<Entry> seen;
  std::vector<Value> results;
  for (const Value& item : iterate(c.value, c.work)) {
    const Value key = sort_key(get_path(item, given[1], c.work), truth(given[0]), c.work);
    if (!is_hashable(key)) reject("unique: a {} cannot be compared so", type_name(key));
    if (find(seen, key, c.work)) continue;
    seen.push_back({key, item});
    results.push_back(item);
  }
  return c.work.iterator(results);
}

Value extreme(const FilterCall& c, bool greatest) {
  const auto given = c.bound({"case_sensitive", "attribute"});
  const List items = iterate(c.value, c.work);
  if (items.size == 0) return c.work.undefined("there is no greatest or least, the sequence was empty");
  const auto key = [&](const Value& item) {
    return sort_key(get_path(item, given[1], c.work), truth(given[0]), c.work);
  };
  Value best = items.items[0], best_key = key(best);
  for (size_t i = 1; i < items.size; ++i) {
    const Value one = key(items.items[i]);
    if (greatest ? !less(best_key, one, c.work) : !less(one, best_key, c.work)) continue;
    best = items.items[i];
    best_key = one;
  }
  return best;
}
Value least(const FilterCall& c) {
  return extreme(c, false);
}
Value greatest(const FilterCall& c) {
  return extreme(c, true);
}

Value sum(const FilterCall& c) {
  const auto given = c.bound({"attribute", "start"});
  Value total = given[1].is(Kind::missing) ? Value::integer(0) : given[1];
  if (total.is(Kind::string)) reject("sum does not join text; use join");
  for (const Value& item : iterate(c.value, c.work))
    total = apply(BinaryOperator::add, total, get_path(item, given[0], c.work), c.work);
  return total;
}

constexpr std::pair<std::string_view, Filter> kFilters[] = {
    {"length", length}, {"count", length},        {"first", first},
    {"last", last},     {"join", join},           {"list", list},
    {"items", items},   {"reverse", reverse},     {"map", map},
    {"select", select}, {"reject", reject_items}, {"selectattr", selectattr},
    {"sort", sort},     {"dictsort", dictsort},   {"rejectattr", rejectattr},
    {"unique", unique}, {"min", least},           {"max", greatest},
    {"sum", sum}};

}  // namespace

Filter find_sequence_filter(std::string_view name) {
  for (const auto& [known, filter] : kFilters)
    if (known == name) return filter;
  return nullptr;
}

std::vector<std::string> sequence_filter_names() {
  std::vector<std::string> names;
  for (const auto& [known, filter] : kFilters) names.emplace_back(known);
  return names;
}

}  // namespace trireme::jinja
