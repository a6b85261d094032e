/* SPDX-License-Identifier: Apache-2.0
 *
 * Chat templates: texts that jinja2 3.1.6 gave, errors with their lines, bounds, and what belongs to the template.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/llm/jinja/jinja.h"
#include "tests/llm/llm_test.h"

static const char conversation[] =
    "{\"messages\":[{\"role\":\"system\",\"content\":\" be short\\n\"},{\"role\":\"user\",\"content\":\"h\\u00e9 "
    "<|end|>\"}],"
    "\"n\":[3,1,2],\"d\":{\"b\":1,\"A\":2.0},\"none\":null,\"yes\":true}";

/* malloc'd text, or the error's. */
static char *rendered(const char *template, const tni_jinja_opts *o, tn_status *st, tni_jinja_text *text) {
  tni_jinja *t = NULL;
  tn_long_error err;
  tni_long_error_init(&err);
  json_t *vars = json_loads(conversation, 0, NULL), *trusted = json_pack("{s:s}", "bos_token", "<s>");
  *text = (tni_jinja_text){0};
  *st = tni_jinja_parse(template, strlen(template), "t", &t, &err.error);
  if (*st == TN_OK) *st = tni_jinja_render(t, vars, trusted, o, text, &err.error);
  json_decref(vars);
  json_decref(trusted);
  tni_jinja_destroy(t);
  return strdup(*st == TN_OK ? text->v : tni_error_text(&err.error));
}

static void check(const char *template, const char *want, tn_status status) {
  tn_status st;
  tni_jinja_text text;
  char *got = rendered(template, &(tni_jinja_opts){.now = 86400}, &st, &text);
  const bool same = st == status && (status == TN_OK ? strcmp(got, want) == 0 : strstr(got, want) != NULL);
  if (!same) printf("\n  %s\n  wanted %s\n  got    %s\n", template, want, got);
  CU_ASSERT_TRUE(same);
  free(got);
  tni_jinja_text_finish(&text);
}

static void test_texts(void) {
  static const struct {
    const char *template, *want;
  } cases[] = {
      {"{{ bos_token }}{% for m in messages %}\n  [{{ m.role }}] {{ m['content'] | trim }}\n{% endfor %}\n",
       "<s>  [system] be short\n  [user] h\xc3\xa9 <|end|>\n"},
      {"a\n  {%- if yes -%}\n b \n{%- endif +%}\nc", "ab\nc"},
      {"{% set ns = namespace(i=0) %}{% for x in n if x > 1 %}{% set ns.i = ns.i + x %}{{ loop.index }}/{{ loop.length "
       "}} {% endfor %}{{ ns.i }}",
       "1/2 2/2 5"},
      {"{% set ns = namespace(s=0) %}{% for x in n if ns.s < 4 %}{{ x }}{% set ns.s = ns.s + x %}{% endfor %}|{% set "
       "ns.s = 0 %}{% for x in n if ns.s < 4 %}{{ x }}{{ loop.last }}{{ loop.length }}{% set ns.s = 9 %}{% endfor %}",
       "31|3False31False32True3"},
      {"{% set g = n|select('odd') %}{{ g|first }}{% for x in g %}{{ x }}{% endfor %}{% for x in g %}{{ x }}{% endfor "
       "%}|{% set g = n|map('string') %}{% for x in g %}{{ x }}{% break %}{% endfor %}{{ '1' in g }}{{ g|join }}",
       "31|3True2"},
      {"{{ d.update is defined }}{{ n.pop is defined }}{{ d['clear'] or 'e' }}{{ {'pop': 1}.pop }}{{ {'pop': "
       "1}['pop'] }}",
       "FalseFalsee1"},
      {"{% for g in messages|groupby('role') %}{{ g.grouper }}{{ g.list|length }}{{ g[0] == g['grouper'] }} {% endfor "
       "%}{{ messages|groupby('role')|map(attribute='grouper')|join }}",
       "system1True user1True systemuser"},
      {"{{ d.keys() }} {{ d.items() }} {{ range(3) }} {{ range(9)[1:7:2] }} {{ d.keys() is sequence }} {{ d.keys()[0] "
       "}}.",
       "dict_keys(['b', 'A']) dict_items([('b', 1), ('A', 2.0)]) range(0, 3) range(1, 7, 2) False ."},
      {"{{ '%.3s|%5.1f|%-4s|%05d|%.3d|%#x|%+.1e' % ('a\xc3\xa9xy', 2.25, '\xc3\xa9', -42, 5, 255, 12.5) }} {{ "
       "'%(a)s' % {'a': 1} }}",
       "a\xc3\xa9x|  2.2|\xc3\xa9   |-0042|005|0xff|+1.2e+01 1"},
      {"{{ '{:.2f}|{:>4}|{:*^5}|{:,}|{:%}|{!r}|{x[a].b}'.format(1.5, 7, 'ab', 1234567, 0.25, 'q', x={'a': {'b': 'c'}}) "
       "}}",
       "1.50|   7|*ab**|1,234,567|25.000000%|'q'|c"},
      {"{{ '0x1f'|int(0, 16) }} {{ '0b11'|int(base=0) }} {{ '0x1f'|int(7) }} {{ '\xce\x91\xce\xa3 "
       "\xce\xa3\xce\x91'|lower }}",
       "31 3 7 \xce\xb1\xcf\x82 \xcf\x83\xce\xb1"},
      {"{{ n[::-1] }} {{ n[1:] }} {{ 'h\xc3\xa9llo'[1:-1] }} {{ 'abc'[-1] }}", "[2, 1, 3] [1, 2] \xc3\xa9ll c"},
      {"{{ messages[0] }}", "{'role': 'system', 'content': ' be short\\n'}"},
      {"{{ messages[1]|tojson }} {{ d|tojson(indent=2, separators=(',', ': ')) }}",
       "{\"role\": \"user\", \"content\": \"h\xc3\xa9 <|end|>\"} {\n  \"b\": 1,\n  \"A\": 2.0\n}"},
      {"{{ d|dictsort }} {{ d.items()|list }} {{ d.get('z', 7) }} {{ d.z is defined }}",
       "[('A', 2.0), ('b', 1)] [('b', 1), ('A', 2.0)] 7 False"},
      {"{% macro f(a, b='x') %}<{{ a }}{{ b }}>{% endmacro %}{{ f(1) }}{{ f(b=2, a=none) }}", "<1x><None2>"},
      {"{% macro f() %}({{ caller('q') }}){% endmacro %}{% call(w) f() %}{{ w * 2 }}{% endcall %}", "(qq)"},
      {"{% for x in n %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% if loop.last %}{% break %}{% endif %}{% else "
       "%}no{% endfor %}",
       "32"},
      {"{{ 7 // -2 }} {{ -7 % 3 }} {{ 1 / 4 }} {{ 2 ** 10 }} {{ 1e16 }} {{ 0.1 + 0.2 }} {{ 1 < 2 < 3 }} {{ 'a' ~ none "
       "~ 1.0 }}",
       "-4 2 0.25 1024 1e+16 0.30000000000000004 True aNone1.0"},
      {"{{ messages|map(attribute='role')|join(', ') }} {{ messages|selectattr('role', 'equalto', 'user')|list|length "
       "}}",
       "system, user 1"},
      {"{{ ' a b '.split() }} {{ 'a-b-c'.rsplit('-', 1) }} {{ 'x\\ny'|indent(2, true) }} {{ 'ab'.startswith(('z', "
       "'a')) }}",
       "['a', 'b'] ['a-b', 'c']   x\n  y True"},
      {"{{ strftime_now('%d %b %Y') }}{% raw %}{{ x }}{% endraw %}{# c #}{% generation %}g{% endgeneration %}",
       "02 Jan 1970{{ x }}g"},
      {"{{ nothing }}{{ nothing|default('d') }}{{ none or 'e' }}{{ 'a' if not yes }}{{ \"it's\" }}{{ [\"it's\", 'q\"'] "
       "}}",
       "deit's[\"it's\", 'q\"']"},
      {"{% set x %}a{% for i in n %}{{ i }}{% endfor %}{% endset %}{{ x|upper }}{% filter upper %}b{% endfilter %}{% "
       "with y = 1 %}{{ y }}{% endwith %}{{ y }}",
       "A312B1"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check(cases[i].template, cases[i].want, TN_OK);
}

static void test_errors(void) {
  static const struct {
    const char *template, *want;
    tn_status st;
  } cases[] = {{"a\n\n{{ raise_exception('roles must alternate') }}", "t: line 3: roles must alternate", TN_E_INVALID},
               {"\n{{ nothing.x }}", "t: line 2: 'nothing' is undefined", TN_E_INVALID},
               {"\n\n{% if yes %}", "line 3: the template ends where 'elif else endif' is wanted", TN_E_INVALID},
               {"{{ 'a", "a string has no end", TN_E_INVALID},
               {"{% include 'x' %}", "'include' is not known in chat templates", TN_E_UNSUPPORTED},
               {"{{ n.append(1) }}", "'append (it would change a list)' is undefined", TN_E_INVALID},
               {"{{ n|nosuch }}", "there is no filter 'nosuch'", TN_E_INVALID},
               {"{{ '%d' % 'a' }}", "%d of a 'str'", TN_E_INVALID},
               {"{{ '{:q}'.format(1) }}", "format: 'q' is not known", TN_E_INVALID},
               {"{{ d.keys()[:1] }}", "a slice of a 'dict_keys'", TN_E_INVALID},
               {"{{ 1 + 'a' }}", "'int' + 'str' has no value", TN_E_INVALID},
               {"{{ 9223372036854775807 }}", "no number that is known here", TN_E_INVALID},
               {"{{ 1 // 0 }}", "division by zero", TN_E_INVALID},
               {"{{ 4611686018427387904 * 2 }}", "no number", TN_E_INVALID},
               {"{% break %}", "outside of a loop", TN_E_INVALID}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check(cases[i].template, cases[i].want, cases[i].st);
}

static void test_bounds(void) {
  static const struct {
    const char *template, *want;
  } cases[] = {
      {"{% set r = range(99999) %}{% for a in r %}{% for b in r %}{% endfor %}{% endfor %}", "too many steps"},
      {"{{ 'xxxxxxxxxx' * 1000000000 }}", "too long"},
      {"{% set ns = namespace(s='xxxxxxxx') %}{% for i in range(60) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
       "too many bytes"},
      {"{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "nested too deep"},
      {"{% set ns = namespace(s=[]) %}{% for i in range(999) %}{% set ns.s = [ns.s] %}{% endfor %}{{ ns.s }}",
       "nested too deep"},
      {"{% for i in range(99999) %}{{ 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx' * 100 }}{% endfor %}", "too"}};
  char deep[4096] = "{{ ";
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check(cases[i].template, cases[i].want, TN_E_LIMIT);
  for (int i = 0; i < 1000; i++) strcat(deep, "(");
  check(deep, "too deep", TN_E_LIMIT);
}

/* What stands in the output as the template's, with '_' for the rest. */
static void check_mine(const char *template, const char *want) {
  tn_status st;
  tni_jinja_text text;
  char *got = rendered(template, NULL, &st, &text);
  for (size_t i = 0; st == TN_OK && i < text.n; i++) got[i] = text.mine[i] ? text.v[i] : '_';
  CU_ASSERT_STRING_EQUAL(got, want);
  free(got);
  tni_jinja_text_finish(&text);
}

static void test_mine(void) {
  check_mine("{{ bos_token }}<|{{ messages[0].role }}|>", "<s><|______|>");
  check_mine("{{ '<|' + messages[0].role|upper ~ '|>' }}", "<|______|>");
  check_mine("{{ messages[1].content.replace('end', 'x')|trim }}", "______x__"); /* h, two bytes of e acute, "<|" */
  check_mine("{{ messages[0].content|trim|tojson }}", "\"________\"");
  check_mine("{{ '%8s|' % messages[0].role }}{{ '{:-<8}{}'.format(messages[0].role, 1) }}", "  ______|______--1");
  check_mine("{% set x %}{% for m in messages %}{{ m.role[1:] }},{% endfor %}{% endset %}{{ x.split(',')|join('-') }}",
             "_____-___-");
}

void add_jinja_suite(void) {
  CU_pSuite s = CU_add_suite("chat templates", NULL, NULL);
  CU_add_test(s, "texts", test_texts);
  CU_add_test(s, "errors", test_errors);
  CU_add_test(s, "bounds", test_bounds);
  CU_add_test(s, "whose bytes", test_mine);
}
