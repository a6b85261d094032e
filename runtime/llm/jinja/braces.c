/* SPDX-License-Identifier: Apache-2.0
 *
 * Python's '{} {name} {0.a[b]!r:>5}'.format(...): which value stands where.
 */
#include <string.h>

#include "runtime/llm/jinja/value.h"

typedef struct braces {
  tni_jj_run *x;
  const tni_jj_args *a;
  size_t next;
  tni_jj_buf b;
} braces;

static bool all_digits(const tni_jj_str *s) {
  for (size_t i = 0; i < s->n; i++)
    if (s->v[i] < '0' || s->v[i] > '9') return false;
  return s->n > 0 && s->n < 6;
}

static size_t digits_value(const tni_jj_str *s) {
  size_t v = 0;
  for (size_t i = 0; i < s->n; i++) v = v * 10 + (size_t)(s->v[i] - '0');
  return v;
}

/* "0", "name", "": the next; then .name and [key]. */
static tni_jj_val field_value(braces *p, const tni_jj_str *field) {
  size_t i = 0;
  while (i < field->n && field->v[i] != '.' && field->v[i] != '[') i++;
  const tni_jj_str name = {field->v, NULL, i};
  const bool numbered = !name.n || all_digits(&name);
  const size_t place = !numbered ? 0 : name.n ? digits_value(&name) : p->next++;
  const tni_jj_val *found = numbered && place < p->a->n ? &p->a->pos[place] : NULL;
  for (size_t k = 0; !numbered && k < p->a->n_kw; k++)
    if (tni_jj_str_same(p->a->kw[k].name, &name)) found = &p->a->kw[k].v;
  if (!found) return tni_jj_fail(p->x, "format: there is no '%.*s'", (int)name.n, name.v);
  tni_jj_val v = *found;
  while (i < field->n && !tni_jj_failed(p->x)) {
    const bool item = field->v[i++] == '[';
    const size_t from = i;
    while (i < field->n && (item ? field->v[i] != ']' : field->v[i] != '.' && field->v[i] != '[')) i++;
    const tni_jj_str key = {field->v + from, NULL, i - from};
    if (!key.n || (item && i++ == field->n)) return tni_jj_fail(p->x, "format: '%.*s'", (int)field->n, field->v);
    if (!item)
      v = tni_jj_attribute(p->x, v, &key);
    else
      v = tni_jj_item(p->x, v, all_digits(&key) ? tni_jj_int((int64_t)digits_value(&key))
                                                : tni_jj_text(p->x, key.v, NULL, key.n));
  }
  return v;
}

/* field[!conversion][:spec] */
static void put_field(braces *p, const tni_jj_str *s) {
  size_t colon = 0;
  while (colon < s->n && s->v[colon] != ':' && s->v[colon] != '!') colon++;
  const tni_jj_str field = {s->v, NULL, colon};
  char conversion = 0;
  if (colon + 1 < s->n && s->v[colon] == '!') {
    conversion = s->v[colon + 1];
    colon += 2;
  }
  if (memchr(s->v, '{', s->n) || (conversion && !strchr("sr", conversion)) || (colon < s->n && s->v[colon] != ':')) {
    tni_jj_fail(p->x, "format: '%.*s' is not known", (int)s->n, s->v);
    return;
  }
  if (colon < s->n) colon++;
  const tni_jj_str spec = {s->v + colon, s->m ? s->m + colon : NULL, s->n - colon};
  tni_jj_val v = field_value(p, &field);
  tni_jj_buf text = {0};
  if (conversion == 'r') tni_jj_put_repr(p->x, &text, v);
  if (conversion == 's') tni_jj_put_val(p->x, &text, v);
  if (conversion) v = tni_jj_buf_val(p->x, &text);
  if (!tni_jj_failed(p->x)) tni_jj_put_formed(p->x, &p->b, v, &spec);
}

tni_jj_val tni_jj_format(tni_jj_run *x, const tni_jj_str *s, const tni_jj_args *a) {
  braces p = {.x = x, .a = a};
  for (size_t i = 0; i < s->n && tni_jj_step(x, 1); i++) {
    const char c = s->v[i];
    const bool brace = c == '{' || c == '}', twice = brace && i + 1 < s->n && s->v[i + 1] == c;
    if (!brace || twice) {
      tni_jj_put_as(x, &p.b, &c, 1, tni_jj_mine(s, i));
      i += twice;
      continue;
    }
    const size_t end = c == '{' ? tni_jj_find_str(s, &(tni_jj_str){"}", NULL, 1}, i) : SIZE_MAX;
    if (end == SIZE_MAX) return tni_jj_fail(x, "format: a '%c' alone", c);
    put_field(&p, &(tni_jj_str){s->v + i + 1, s->m ? s->m + i + 1 : NULL, end - i - 1});
    i = end;
  }
  return tni_jj_buf_val(x, &p.b);
}
