/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests: what stands after `is`.
 */
#include <string.h>

#include "runtime/llm/jinja/value.h"

#define TEST(name) static tni_jj_val name(tni_jj_run *x, tni_jj_val v, const tni_jj_val *a, const tni_jj_args *raw)
#define UNUSED (void)x, (void)a, (void)raw

TEST(is_defined) { return UNUSED, tni_jj_bool(v.type != TNI_JJ_UNDEFINED); }
TEST(is_undefined) { return UNUSED, tni_jj_bool(v.type == TNI_JJ_UNDEFINED); }
TEST(is_none) { return UNUSED, tni_jj_bool(v.type == TNI_JJ_NONE); }
TEST(is_boolean) { return UNUSED, tni_jj_bool(v.type == TNI_JJ_BOOL); }
TEST(is_true) { return UNUSED, tni_jj_bool(v.type == TNI_JJ_BOOL && v.b); }
TEST(is_false) { return UNUSED, tni_jj_bool(v.type == TNI_JJ_BOOL && !v.b); }
TEST(is_integer) { return UNUSED, tni_jj_bool(v.type == TNI_JJ_INT); }
TEST(is_float) { return UNUSED, tni_jj_bool(v.type == TNI_JJ_FLOAT); }
TEST(is_number) { return UNUSED, tni_jj_bool(tni_jj_is_number(v)); }
TEST(is_string) { return UNUSED, tni_jj_bool(v.type == TNI_JJ_STR); }
TEST(is_mapping) { return UNUSED, tni_jj_bool(v.type == TNI_JJ_DICT); }
TEST(is_callable) { return UNUSED, tni_jj_bool(v.type == TNI_JJ_UNDEFINED || tni_jj_is_callable(v)); }
TEST(is_iterable) {
  return UNUSED, tni_jj_bool(v.type == TNI_JJ_UNDEFINED || v.type == TNI_JJ_STR || v.type == TNI_JJ_LIST ||
                             v.type == TNI_JJ_DICT || v.type == TNI_JJ_LOOP);
}
/* What has a length and __getitem__. */
TEST(is_sequence) {
  return UNUSED, tni_jj_bool(v.type == TNI_JJ_UNDEFINED || v.type == TNI_JJ_STR || v.type == TNI_JJ_DICT ||
                             (v.type == TNI_JJ_LIST && tni_jj_has_index(v)));
}
TEST(is_in) { return (void)raw, tni_jj_bool(tni_jj_contains(x, a[0], v)); }
TEST(is_eq) { return (void)raw, tni_jj_binary(x, TNI_JJ_EQ, v, a[0]); }
TEST(is_ne) { return (void)raw, tni_jj_binary(x, TNI_JJ_NE, v, a[0]); }
TEST(is_lt) { return (void)raw, tni_jj_binary(x, TNI_JJ_LT, v, a[0]); }
TEST(is_le) { return (void)raw, tni_jj_binary(x, TNI_JJ_LE, v, a[0]); }
TEST(is_gt) { return (void)raw, tni_jj_binary(x, TNI_JJ_GT, v, a[0]); }
TEST(is_ge) { return (void)raw, tni_jj_binary(x, TNI_JJ_GE, v, a[0]); }
TEST(is_sameas) {
  UNUSED;
  if (v.type != a[0].type) return tni_jj_bool(false);
  return tni_jj_bool(v.type == TNI_JJ_NONE || (v.type == TNI_JJ_BOOL  ? v.b == a[0].b
                                               : v.type == TNI_JJ_INT ? v.i == a[0].i
                                                                      : v.s == a[0].s));
}
TEST(is_divisible) {
  return (void)raw, tni_jj_binary(x, TNI_JJ_EQ, tni_jj_binary(x, TNI_JJ_MOD, v, a[0]), tni_jj_int(0));
}
TEST(is_even) {
  return UNUSED, tni_jj_binary(x, TNI_JJ_EQ, tni_jj_binary(x, TNI_JJ_MOD, v, tni_jj_int(2)), tni_jj_int(0));
}
TEST(is_odd) {
  return UNUSED, tni_jj_binary(x, TNI_JJ_EQ, tni_jj_binary(x, TNI_JJ_MOD, v, tni_jj_int(2)), tni_jj_int(1));
}

/* str.islower and str.isupper: there are cased characters, and none of the other case. */
static tni_jj_val is_case(tni_jj_run *x, tni_jj_val v, tni_jj_case how) {
  const tni_jj_str *s = tni_jj_to_str(x, v);
  const tni_jj_val same = tni_jj_recase(x, s, how),
                   other = tni_jj_recase(x, s, how == TNI_JJ_LOWER ? TNI_JJ_UPPER : TNI_JJ_LOWER);
  return tni_jj_bool(!tni_jj_failed(x) && tni_jj_str_same(same.s, s) && !tni_jj_str_same(other.s, s));
}
TEST(is_lower) { return UNUSED, is_case(x, v, TNI_JJ_LOWER); }
TEST(is_upper) { return UNUSED, is_case(x, v, TNI_JJ_UPPER); }
TEST(is_filter) { return UNUSED, tni_jj_bool(v.type == TNI_JJ_STR && tni_jj_find_filter(v.s)); }
TEST(is_test) { return UNUSED, tni_jj_bool(v.type == TNI_JJ_STR && tni_jj_find_test(v.s)); }
#undef TEST
#undef UNUSED

static const tni_jj_builtin tests[] = {{"defined", "", 0, is_defined},
                                       {"undefined", "", 0, is_undefined},
                                       {"none", "", 0, is_none},
                                       {"boolean", "", 0, is_boolean},
                                       {"true", "", 0, is_true},
                                       {"false", "", 0, is_false},
                                       {"integer", "", 0, is_integer},
                                       {"float", "", 0, is_float},
                                       {"number", "", 0, is_number},
                                       {"string", "", 0, is_string},
                                       {"mapping", "", 0, is_mapping},
                                       {"callable", "", 0, is_callable},
                                       {"iterable", "", 0, is_iterable},
                                       {"sequence", "", 0, is_sequence},
                                       {"in", "seq", 1, is_in},
                                       {"eq", "b", 1, is_eq},
                                       {"equalto", "b", 1, is_eq},
                                       {"==", "b", 1, is_eq},
                                       {"ne", "b", 1, is_ne},
                                       {"!=", "b", 1, is_ne},
                                       {"lt", "b", 1, is_lt},
                                       {"lessthan", "b", 1, is_lt},
                                       {"<", "b", 1, is_lt},
                                       {"le", "b", 1, is_le},
                                       {"<=", "b", 1, is_le},
                                       {"gt", "b", 1, is_gt},
                                       {"greaterthan", "b", 1, is_gt},
                                       {">", "b", 1, is_gt},
                                       {"ge", "b", 1, is_ge},
                                       {">=", "b", 1, is_ge},
                                       {"sameas", "other", 1, is_sameas},
                                       {"divisibleby", "num", 1, is_divisible},
                                       {"even", "", 0, is_even},
                                       {"odd", "", 0, is_odd},
                                       {"lower", "", 0, is_lower},
                                       {"upper", "", 0, is_upper},
                                       {"filter", "", 0, is_filter},
                                       {"test", "", 0, is_test},
                                       {NULL, NULL, 0, NULL}};

const tni_jj_builtin *tni_jj_find_test(const tni_jj_str *name) { return tni_jj_find(tests, name); }

bool tni_jj_test(tni_jj_run *x, const tni_jj_str *name, tni_jj_val v, const tni_jj_args *a) {
  const tni_jj_builtin *fn = tni_jj_find_test(name);
  if (!fn) return tni_jj_fail(x, "there is no test '%.*s'", (int)name->n, name->v), false;
  return tni_jj_truth(tni_jj_call_builtin(x, fn, v, a));
}
