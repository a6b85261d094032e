/* SPDX-License-Identifier: Apache-2.0
 *
 * Strings: lengths, patterns and formats. A format is a regex that the whole string matches and that nobody's checker
 * refuses; a format that is not in the list says nothing, as the standard has it.
 */
#include "runtime/llm/grammar/schema.h"

#define DATE                                                                                                  \
  "(?:1[6-9]|2\\d)\\d\\d-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\\d|30)|" \
  "02-(?:0[1-9]|1\\d|2[0-8]))"
#define TIME "(?:[01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(?:\\.\\d{1,6})?(?:Z|[+-](?:[01]\\d|2[0-3]):[0-5]\\d)"
/* Without two hyphens in a row: after two letters they announce an encoding of other scripts. */
#define LABEL "[a-z0-9](?:-?[a-z0-9]){0,31}"
#define HOST "(?:" LABEL "\\.){1,3}[a-z]{2,12}"
#define BYTE "(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)"
#define URI "https?://" HOST "(?::[1-9]\\d{1,3})?(?:/[A-Za-z0-9._~-]{0,40}){0,8}(?:\\?[A-Za-z0-9._~=&-]{0,60})?"
#define HEX4 "[0-9a-f]{1,4}"

static const struct {
  const char *name, *regex;
} formats[] = {
    {"date", DATE},
    {"time", TIME},
    {"date-time", DATE "T" TIME},
    {"email", "[A-Za-z0-9](?:[._+-]?[A-Za-z0-9]){0,30}@" HOST},
    {"idn-email", "[A-Za-z0-9](?:[A-Za-z0-9_+-]{0,30}[A-Za-z0-9])?@" HOST},
    {"hostname", HOST},
    {"idn-hostname", HOST},
    {"ipv4", BYTE "(?:\\." BYTE "){3}"},
    {"ipv6", "(?:" HEX4 ":){7}" HEX4 "|(?:" HEX4 ":){1,3}(?::" HEX4 "){1,4}|::1|::"},
    {"uri", URI},
    {"uri-reference", URI},
    {"iri", URI},
    {"iri-reference", URI},
    {"uri-template", "https?://" HOST "(?:/(?:[A-Za-z0-9._~-]{1,40}|\\{[+#./;?&]?[a-z]{1,20}(?:,[a-z]{1,20}){0,4}\\})){0,8}"},
    {"uuid", "[0-9a-f]{8}-[0-9a-f]{4}-[1-5][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"},
    {"json-pointer", "(?:/[A-Za-z0-9_-]{1,40}){0,16}"},
    {"relative-json-pointer", "(?:0|[1-9]\\d{0,3})(?:/[A-Za-z0-9_-]{1,40}){0,16}"},
    {"regex", "[A-Za-z0-9_ -]{0,64}"},
    {"duration", "P(?:[1-9]\\d{0,3}Y)?(?:[1-9]\\d{0,2}M)?[1-9]\\d{0,3}D(?:T[1-9]\\d{0,3}S)?"},
};

#undef DATE
#undef TIME
#undef LABEL
#undef HOST
#undef BYTE
#undef URI
#undef HEX4

void tni_string_parts_finish(tni_string_parts *p) {
  for (size_t i = 0; i < p->form.n; i++) tni_nfa_finish(p->form.all[i]);
  p->form.n = 0;
}

static const char *regex_of(const char *format) {
  for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
    if (strcmp(formats[i].name, format) == 0) return formats[i].regex;
  return NULL;
}

/* Two are left for who adds its own. */
static bool add_regex(tni_schema *s, const char *key, const json_t *v, bool format, tni_string_parts *out) {
  const char *text = json_string_value(v);
  tni_regex_error e;
  if (!text) return tni_schema_fail(s, TN_E_INVALID, key, "expected a string");
  if (format && !(text = regex_of(text))) return true;
  if (out->form.n + 2 >= TNI_NFA_TOGETHER)
    return tni_schema_fail(s, TN_E_LIMIT, key, "more than %d patterns of one string", TNI_NFA_TOGETHER - 2);
  tni_nfa *x = &out->nfas[out->form.n];
  tni_nfa_init(x);
  out->form.all[out->form.n++] = x;
  if (tni_nfa_regex(x, text, strlen(text), format, &e)) return true;
  return tni_schema_fail(s, e.status, key, "column %zu: %s", e.column, e.why);
}

bool tni_schema_string_form(tni_schema *s, json_t *schema, tni_string_parts *out) {
  static const char *const keys[] = {"pattern", "format"};
  out->form = (tni_string_form){.most = UINT32_MAX};
  for (size_t k = 0; k < 2; k++) {
    const json_t *v = json_object_get(schema, keys[k]);
    for (size_t i = 0; v && i < (json_is_array(v) ? json_array_size(v) : 1); i++)
      if (!add_regex(s, keys[k], json_is_array(v) ? json_array_get(v, i) : v, k == 1, out)) return false;
  }
  return tni_schema_count(s, schema, "minLength", &out->form.least) &&
         tni_schema_count(s, schema, "maxLength", &out->form.most);
}

bool tni_schema_string(tni_schema *s, json_t *schema, uint32_t from, uint32_t to) {
  tni_string_parts p;
  const bool ok = tni_schema_string_form(s, schema, &p);
  if (ok && s->a->failed == TN_OK) {
    const uint32_t begin = tni_auto_state(s->a), end = tni_auto_state(s->a);
    tni_auto_text(s->a, from, "\"", 1, begin);
    tni_nfa_emit(s->a, begin, &p.form, true, end);
    tni_auto_text(s->a, end, "\"", 1, to);
  }
  tni_string_parts_finish(&p);
  return ok;
}
