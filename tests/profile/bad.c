/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profile_test.h"
#include "runtime/profile/device_profile.h"
#include "runtime/profile/yamltree.h"

typedef struct bad {
  const char *text, *place, *says; /* says: a part of the message */
} bad;

static const bad table[] = {
    {"", "p.yaml:1:1", "empty"},
    {"# only a comment\n", "p.yaml:1:1", "empty"},
    {"just text\n", "p.yaml:1:1", "mapping"},
    {"- a\n", "p.yaml:1:1", "mapping"},
    /* keys */
    {"plugins: [host]\nthreds: 2\n", "p.yaml:2:1", "unknown key 'threds' in a profile: did you mean 'threads'?"},
    {"plugins: [host]\nrequires: [host]\n", "p.yaml:2:1", "did you mean 'require'?"},
    {"zzzzzzzzzzzz: 1\n", "p.yaml:1:1", "unknown key 'zzzzzzzzzzzz' in a profile"},
    {"threads: 1\nmax_seq: 5\nthreads: 2\n", "p.yaml:3:1", "'threads' is given twice (first in line 1)"},
    {"plugins:\n  - name: a\n    optoins: {}\n", "p.yaml:3:5", "did you mean 'options'?"},
    {"plugins: [a]\nphases:\n  prefil: [a]\n", "p.yaml:3:3", "did you mean 'prefill'?"},
    {"cache: {max_byte: 8G}\n", "p.yaml:1:9", "did you mean 'max_bytes'?"},
    {"[a]: 1\n", "p.yaml:1:1", "a key must be"},
    /* types */
    {"threads: [1]\n", "p.yaml:1:10", "'threads' must be a single value, not a list"},
    {"threads: two\n", "p.yaml:1:10", "'threads' must be a whole number, not 'two'"},
    {"threads: '2'\n", "p.yaml:1:10", "whole number"},
    {"threads: 2.5\n", "p.yaml:1:10", "whole number"},
    {"threads: 99999999999999999999\n", "p.yaml:1:10", "whole number"},
    {"threads:\n", "p.yaml:1:9", "whole number"},
    {"plugins: host\n", "p.yaml:1:10", "'plugins' must be a list, not a single value"},
    {"plugins: [[host]]\n", "p.yaml:1:11", "a name or a mapping"},
    {"plugins: [{optional: true}]\n", "p.yaml:1:11", "no 'name'"},
    {"plugins: [{name: a, optional: yes}]\n", "p.yaml:1:31", "true or false, not 'yes'"},
    {"plugins: [{name: a, options: [1]}]\n", "p.yaml:1:30", "'options' must be a mapping"},
    {"plugins: [{name: a, options: {group: [1]}}]\n", "p.yaml:1:38", "option 'group' must be a single value"},
    {"plugins: ['']\n", "p.yaml:1:11", "empty"},
    {"plugins: [~]\n", "p.yaml:1:11", "empty"},
    {"checked: 1\n", "p.yaml:1:10", "true or false"},
    {"require: host\n", "p.yaml:1:10", "'require' must be a list"},
    {"phases: [a]\n", "p.yaml:1:9", "'phases' must be a mapping"},
    {"cache: /tmp\n", "p.yaml:1:8", "'cache' must be a mapping"},
    {"cache: {dir: [a]}\n", "p.yaml:1:14", "'cache.dir' must be a single value"},
    {"cache: {max_bytes: 8X}\n", "p.yaml:1:20", "a size such as"},
    {"cache: {max_bytes: -1}\n", "p.yaml:1:20", "a size such as"},
    {"cache: {max_bytes: 8GG}\n", "p.yaml:1:20", "a size such as"},
    {"cache: {max_bytes: 99999999999T}\n", "p.yaml:1:20", "a size such as"},
    {"cache: {max_bytes: 0}\n", "p.yaml:1:20", "'cache.max_bytes' must be more than 0"},
    {"load: {max_bytes: 0}\n", "p.yaml:1:19", "'load.max_bytes' must be more than 0"},
    {"load: {max_steps: 0}\n", "p.yaml:1:19", "out of range"},
    {"cache: {dir: ~/x}\n", "p.yaml:1:14", "not expanded"},
    /* ranges and names */
    {"threads: -1\n", "p.yaml:1:10", "out of range [0, 1024]"},
    {"threads: 1025\n", "p.yaml:1:10", "out of range"},
    {"cpus: []\n", "p.yaml:1:7", "'cpus' names no processor"},
    {"cpus:\n", "p.yaml:1:6", "'cpus' is empty"},
    {"plugins: [host]\ncpus: [0, 2-x]\n", "p.yaml:2:11",
     "'cpus' takes processors and ranges of them such as 0,2-3, or big, not '2-x'"},
    {"cpus: [big]\n", "p.yaml:1:8", "'cpus: big' stands in no list"},
    {"cpus: little\n", "p.yaml:1:7", "or big, not 'little'"},
    {"cpus: [0, [1]]\n", "p.yaml:1:11", "'cpus' must be a single value, not a list"},
    {"cpus: {first: 0}\n", "p.yaml:1:7", "'cpus' must be a single value"},
    {"cpus: all\n", "p.yaml:1:7", "not 'all'"},
    {"cpus: -1\n", "p.yaml:1:7", "not '-1'"},
    {"cpus: [3-2]\n", "p.yaml:1:8", "'cpus' has a range that ends before it begins: 3-2"},
    {"cpus: [0, 1024]\n", "p.yaml:1:11", "'cpus' names a processor above 1023"},
    {"cpus: [0-3, 2]\n", "p.yaml:1:13", "'cpus' names processor 2 twice"},
    {"max_seq: 2147483648\n", "p.yaml:1:10", "out of range"},
    {"prefill_chunk: -1\n", "p.yaml:1:16", "out of range"},
    {"bucket: 65537\n", "p.yaml:1:9", "out of range"},
    {"timeout_ms: 0\n", "p.yaml:1:13", "out of range"},
    {"watch: -1\n", "p.yaml:1:8", "out of range"},
    {"watch: often\n", "p.yaml:1:8", "watch"},
    {"priority: urgent\n", "p.yaml:1:11", "low, normal or high"},
    {"power: full\n", "p.yaml:1:8", "'power' is none, save, balanced, sustained or burst, not 'full'"},
    {"kv: int5\n", "p.yaml:1:5", "'kv' is f32, f16, bf16, int8 or int4, not 'int5'"},
    {"kv: [f16]\n", "p.yaml:1:5", "kv"},
    {"kv_ring: maybe\n", "p.yaml:1:10", "kv_ring"},
    {"embeddings: f32\n", "p.yaml:1:13", "'embeddings' is source or packed, not 'f32'"},
    {"plugins: [../evil]\n", "p.yaml:1:11", "is a path"},
    {"plugins: [a/b]\n", "p.yaml:1:11", "is a path"},
    {"plugins: ['a..b']\n", "p.yaml:1:11", "is a path"},
    {"plugins: ['a\\b']\n", "p.yaml:1:11", "is a path"},
    {"plugins: [Upper]\n", "p.yaml:1:11", "no plugin name"},
    {"plugins: ['a b']\n", "p.yaml:1:11", "no plugin name"},
    {"plugins: [-a]\n", "p.yaml:1:11", "no plugin name"},
    {"plugins: [a.so]\n", "p.yaml:1:11", "no plugin name"},
    {"plugins: [a123456789012345678901234567890123456789012345678901234567890123]\n", "p.yaml:1:11", "no plugin name"},
    {"plugins: [a, a]\n", "p.yaml:1:14", "'a' is listed twice"},
    {"plugins: [cpu-avx2-lut]\nrequire: [cpu-avx-lut]\n", "p.yaml:2:11", "did you mean 'cpu-avx2-lut'?"},
    {"plugins: [a]\nrequire: [a, a]\n", "p.yaml:2:14", "names 'a' twice"},
    {"plugins: [a]\nphases: {decode: [b]}\n", "p.yaml:2:19", "'decode' names 'b', which is not in 'plugins'"},
    {"plugins: [a]\nphases: {decode: []}\n", "p.yaml:2:18", "names no plugin"},
    /* YAML itself */
    {"plugins: [host\n", "p.yaml:2:1", "expected ',' or ']'"},
    {"a: b: c\n", "p.yaml:1:5", "mapping values are not allowed"},
    {"\tthreads: 1\n", "p.yaml:1:1", "cannot start any token"},
    {"threads: 1\n---\nthreads: 2\n", "p.yaml:2:1", "second document"},
    {"threads: &a 1\n", "p.yaml:1:10", "anchors"},
    {"plugins: &a [x]\nrequire: *a\n", "p.yaml:1:10", "anchors"},
    {"require: *a\n", "p.yaml:1:10", "aliases"},
    {"threads: !!int 1\n", "p.yaml:1:10", "tags"},
    {"cache: {dir: \"a\\0b\"}\n", "p.yaml:1:14", "NUL"},
    {"x: [[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]\n", "p.yaml:1:11", "too deeply"},
    {"threads: \xff\xfe\n", "p.yaml:1:1", "UTF-8"},
};

static void test_table(void) {
  for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
    tni_profile *p = (tni_profile *)&table[0];
    tn_error err = {0};
    tn_status st = tni_profile_parse(table[i].text, strlen(table[i].text), "p.yaml", &p, &err);
    int ok = st == TN_E_INVALID && err.code == TN_E_INVALID && p == (tni_profile *)&table[0] &&
             strcmp(err.where, table[i].place) == 0 && strstr(err.message, table[i].says);
    if (!ok)
      printf("\n  case %zu <%s>: status %d, where '%s' (want '%s'), message '%s' (want '%s')\n", i, table[i].text, st,
             err.where, table[i].place, err.message, table[i].says);
    CU_ASSERT(ok);
    if (st == TN_OK) tni_profile_destroy(p);
  }
}

static tn_status parse(const char *text, size_t n, tn_error *err) {
  tni_profile *p = NULL;
  tn_status st = tni_profile_parse(text, n, "p.yaml", &p, err);
  tni_profile_destroy(p);
  return st;
}

static void test_bombs(void) {
  /* aliases that would expand to 9^9 entries */
  static const char laughs[] =
      "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: [*b,*b,*b,*b,*b,*b,*b,*b,*b]\n";
  tn_error err = {0};
  CU_ASSERT_EQUAL(parse(laughs, sizeof laughs - 1, &err), TN_E_INVALID);
  CU_ASSERT_STRING_EQUAL(err.where, "p.yaml:1:4");

  size_t n = 300 * 1024;
  char *big = malloc(n);
  CU_ASSERT_PTR_NOT_NULL_FATAL(big);
  memset(big, '[', n);
  tni_error_init(&err);
  CU_ASSERT_EQUAL(parse(big, n, &err), TN_E_INVALID);
  CU_ASSERT_PTR_NOT_NULL(strstr(err.message, "too large"));
  tni_error_init(&err);
  CU_ASSERT_EQUAL(parse(big, 200 * 1024, &err), TN_E_INVALID);
  CU_ASSERT_PTR_NOT_NULL(strstr(err.message, "too deeply"));

  size_t at = (size_t)sprintf(big, "require: [");
  for (int i = 0; i < 20000; i++) at += (size_t)sprintf(big + at, "a, ");
  at += (size_t)sprintf(big + at, "a]\n");
  tni_error_init(&err);
  CU_ASSERT_EQUAL(parse(big, at, &err), TN_E_INVALID);
  CU_ASSERT_PTR_NOT_NULL(strstr(err.message, "too many entries"));

  at = (size_t)sprintf(big, "plugins: [");
  for (int i = 0; i < 65; i++) at += (size_t)sprintf(big + at, "p%d, ", i);
  at += (size_t)sprintf(big + at, "q]\n");
  tni_error_init(&err);
  CU_ASSERT_EQUAL(parse(big, at, &err), TN_E_INVALID);
  CU_ASSERT_PTR_NOT_NULL(strstr(err.message, "more than 64"));
  free(big);
}

/* Every prefix and every single changed byte of a good profile: a status, never a crash. */
static void test_mutations(void) {
  static const char good[] =
      "plugins:\n  - a\n  - {name: b, optional: true, options: {group: 32}}\nphases: {prefill: [a], decode: [b, "
      "host]}\n"
      "require: [a]\nthreads: 2\nmax_seq: 2048\nplugin_path: [x]\ncache: {dir: c, max_bytes: 8G}\nchecked: false\n";
  char text[sizeof good];
  for (size_t i = 0; i < sizeof good; i++) {
    tn_error err = {0};
    tn_status st = parse(good, i, &err);
    CU_ASSERT(st == TN_OK || (st == TN_E_INVALID && strncmp(err.where, "p.yaml:", 7) == 0));
    for (int c = 0; c < 256; c += 7) {
      memcpy(text, good, sizeof good);
      text[i] = (char)c;
      tni_error_init(&err);
      st = parse(text, sizeof good - 1, &err);
      CU_ASSERT(st == TN_OK || (st == TN_E_INVALID && strncmp(err.where, "p.yaml:", 7) == 0));
    }
  }
}

static void test_long_place(void) {
  char where[64], file[200];
  memset(file, 'x', sizeof file);
  file[sizeof file - 1] = '\0';
  tni_place(where, sizeof where, file, 12, 34);
  CU_ASSERT_EQUAL(strlen(where), sizeof where - 1);
  CU_ASSERT_STRING_EQUAL(where + strlen(where) - 7, "x:12:34");
}

int add_bad_suite(void) {
  CU_pSuite s = CU_add_suite("bad profiles", NULL, NULL);
  return s && CU_add_test(s, "table", test_table) && CU_add_test(s, "bombs", test_bombs) &&
         CU_add_test(s, "mutations", test_mutations) && CU_add_test(s, "long place", test_long_place);
}
