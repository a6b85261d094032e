/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/plugin/options.h"

#include <stdio.h>
#include <string.h>

#include "runtime/plugin/check.h"
#include "runtime/profile/profile.h"

static bool typed_value(const char *text, bool quoted, tni_option_value *v) {
  bool b;
  switch (v->type) {
    case TN_OPT_BOOL:
      if (quoted || !tni_text_bool(text, &b)) return false;
      v->i = b;
      return true;
    case TN_OPT_INT:
      return !quoted && tni_text_int(text, &v->i);
    case TN_OPT_FLOAT:
      return !quoted && tni_text_float(text, &v->d);
    default:
      v->s = text;
      return true;
  }
}

static bool same_value(const tni_option_value *a, const tni_option_value *b) {
  if (a->type == TN_OPT_STRING) return strcmp(a->s, b->s) == 0;
  return a->type == TN_OPT_FLOAT ? a->d == b->d : a->i == b->i;
}

static bool is_choice(const char *choices, const tni_option_value *v) {
  char one[64];
  for (const char *c = choices; *c;) {
    size_t n = strcspn(c, "|");
    snprintf(one, sizeof one, "%.*s", (int)(n < sizeof one ? n : sizeof one - 1), c);
    tni_option_value w = {.type = v->type};
    if (n < sizeof one && typed_value(one, false, &w) && same_value(&w, v)) return true;
    c += n + (c[n] == '|');
  }
  return false;
}

/* Why text is no value of o, into why; false if it is none. */
static bool option_fits(const tn_option *o, const char *text, bool quoted, tni_option_value *v, char *why, size_t n) {
  static const char *const types[] = {"", "true or false", "a whole number", "a number", "a text"};
  v->key = o->key;
  v->type = o->type;
  if (!typed_value(text, quoted, v)) {
    snprintf(why, n, "must be %s, not '%.48s'", types[o->type], text);
    return false;
  }
  double number = o->type == TN_OPT_FLOAT ? v->d : (double)v->i;
  if ((o->type == TN_OPT_INT || o->type == TN_OPT_FLOAT) && o->lo < o->hi && (number < o->lo || number > o->hi)) {
    snprintf(why, n, "is %.48s, out of range [%g, %g]", text, o->lo, o->hi);
    return false;
  }
  if (o->choices && !is_choice(o->choices, v)) {
    snprintf(why, n, "must be one of %.80s, not '%.48s'", o->choices, text);
    return false;
  }
  return true;
}

static tn_status fail_at(const char *file, uint32_t line, uint32_t column, tn_error *err, const char *fmt, ...)
    TN_PRINTF(5, 6);
static tn_status fail_at(const char *file, uint32_t line, uint32_t column, tn_error *err, const char *fmt, ...) {
  char where[sizeof err->where];
  tni_place(where, sizeof where, file, line, column);
  va_list ap;
  va_start(ap, fmt);
  tni_vfail(err, TN_E_INVALID, where, fmt, ap);
  va_end(ap);
  return TN_E_INVALID;
}

static tn_status unknown_option(const tn_plugin *p, const char *file, const tni_profile_option *o, tn_error *err) {
  const char *keys[TNI_MAX_PLUGIN_OPTIONS];
  for (uint32_t i = 0; i < p->n_options; i++) keys[i] = p->options[i]->key;
  const char *near = tni_nearest(o->key, keys, p->n_options);
  if (p->n_options == 0)
    return fail_at(file, o->line, o->column, err, "plugin '%s' has no options, so not '%.64s'", p->name, o->key);
  return fail_at(file, o->line, o->column, err, "plugin '%s' has no option '%.64s'%s%s%s", p->name, o->key,
                 near ? ": did you mean '" : "", near ? near : "", near ? "'?" : "");
}

static tn_status default_values(const tn_plugin *p, tni_option_value *values, tn_error *err) {
  char why[200];
  for (uint32_t i = 0; i < p->n_options; i++) {
    const tn_option *o = p->options[i];
    values[i] = (tni_option_value){.key = o->key, .type = o->type, .s = ""};
    if (o->dflt && !option_fits(o, o->dflt, false, &values[i], why, sizeof why))
      return tni_fail(err, TN_E_INTERNAL, p->name, "plugin '%s': the default of its option '%s' %s", p->name, o->key,
                      why);
  }
  return TN_OK;
}

tn_status tni_options_resolve(tni_arena *a, const tn_plugin *p, const char *file, const tni_profile_plugin *section,
                              const tni_option_value **out, tn_error *err) {
  tni_option_value *values = TNI_NEW_ARRAY(a, tni_option_value, p->n_options + 1);
  if (!values) return tni_fail_memory(err, p->name);
  tn_status st = default_values(p, values, err);
  for (uint32_t s = 0; st == TN_OK && section && s < section->n_options; s++) {
    const tni_profile_option *given = &section->options[s];
    char why[200];
    uint32_t i = 0;
    while (i < p->n_options && strcmp(p->options[i]->key, given->key) != 0) i++;
    if (i == p->n_options) return unknown_option(p, file, given, err);
    if (!option_fits(p->options[i], given->value, given->quoted, &values[i], why, sizeof why))
      return fail_at(file, given->value_line, given->value_column, err, "option '%s' of plugin '%s' %s", given->key,
                     p->name, why);
    if (p->options[i]->type == TN_OPT_STRING && !(values[i].s = tni_arena_strdup(a, given->value)))
      return tni_fail_memory(err, p->name);
  }
  if (st == TN_OK) *out = values;
  return st;
}
