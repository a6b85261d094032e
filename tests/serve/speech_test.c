/* SPDX-License-Identifier: Apache-2.0
 *
 * What a model says, taken apart: the same whole, letter by letter, and in pieces of any length.
 */
#include <CUnit/Basic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/serve/speech/speech.h"

enum { PARTS = 6, RANDOM = 3000 };

static json_t *tools;

typedef struct heard {
  char *content, *thoughts, *calls;
} heard;

/* Names and arguments; ids are drawn. */
static char *calls_of(const srv_speech *s) {
  json_t *list = json_array(), *c;
  size_t i;
  json_array_foreach(s->calls, i, c) json_array_append(list, json_object_get(c, "function"));
  char *text = json_dumps(list, JSON_SORT_KEYS | JSON_COMPACT);
  json_decref(list);
  return text;
}

typedef struct setting {
  bool tools, one, thinks;
} setting;

/* In pieces of so many bytes; 0: of lengths that state draws. */
static heard hear(const char *text, setting o, size_t piece, uint32_t state) {
  srv_speech s;
  const size_t n = strlen(text);
  srv_speech_init(&s, o.tools ? tools : NULL, o.one, o.thinks);
  for (size_t at = 0, len; at < n; at += len) {
    state = state * 1664525u + 1013904223u;
    len = piece ? piece : 1 + (state >> 16) % 9;
    if (len > n - at) len = n - at;
    char *own = malloc(len); /* what is read beyond it is seen by a sanitizer */
    CU_ASSERT_FATAL(own != NULL);
    memcpy(own, text + at, len);
    srv_speech_push(&s, own, len, false);
    free(own);
  }
  srv_speech_push(&s, "", 0, true);
  CU_ASSERT_FALSE(s.no_memory);
  const heard h = {strdup(s.content.n ? s.content.v : ""), strdup(s.thoughts.n ? s.thoughts.v : ""), calls_of(&s)};
  srv_speech_finish(&s);
  return h;
}

static void forget(heard *h) {
  free(h->content);
  free(h->thoughts);
  free(h->calls);
}

static bool same(const heard *a, const heard *b) {
  return strcmp(a->content, b->content) == 0 && strcmp(a->thoughts, b->thoughts) == 0 && strcmp(a->calls, b->calls) == 0;
}

static void alike(const char *text, setting o) {
  heard whole = hear(text, o, SIZE_MAX, 1);
  for (size_t i = 0; i < 6; i++) {
    heard cut = hear(text, o, i < 3 ? i + 1 : 0, (uint32_t)(i * 77 + 5));
    if (!same(&whole, &cut))
      printf("\n  [%s] tools %d one %d thinks %d, way %zu:\n    whole  [%s] [%s] %s\n    pieces [%s] [%s] %s", text, o.tools, o.one,
             o.thinks, i, whole.content, whole.thoughts, whole.calls, cut.content, cut.thoughts, cut.calls);
    CU_ASSERT_TRUE(same(&whole, &cut));
    forget(&cut);
  }
  forget(&whole);
}

#define W "{\"name\": \"weather\", \"arguments\": {\"city\": \"Oslo\"}}"
#define W_CALL "{\"arguments\":\"{\\\"city\\\": \\\"Oslo\\\"}\",\"name\":\"weather\"}"
#define C "{\"name\": \"clock\", \"parameters\": {}}"
#define C_CALL "{\"arguments\":\"{}\",\"name\":\"clock\"}"

#define X "<function=weather>\n<parameter=city>\nOslo\n</parameter>\n</function>"
#define X_MORE \
  "<function=weather>\n<parameter=city>\n7\n</parameter>\n<parameter=days>\n3\n</parameter>\n<parameter=units>\nm\n</parameter>\n" \
  "<parameter=at>\n{\"x\": [1, 2]}\n</parameter>\n<parameter=other>\n5\n</parameter>\n</function>"
#define X_MORE_CALL \
  "{\"arguments\":\"{\\\"city\\\": \\\"7\\\", \\\"days\\\": 3, \\\"units\\\": \\\"m\\\", \\\"at\\\": {\\\"x\\\": [1, 2]}, " \
  "\\\"other\\\": \\\"5\\\"}\",\"name\":\"weather\"}"

#define X_NOTE(text) "<function=weather>\n<parameter=note>\n" text "\n</parameter>\n</function>"
#define X_NOTE_CALL(value) "[{\"arguments\":\"{\\\"note\\\": " value "}\",\"name\":\"weather\"}]"

#define A "{\"city\": \"Oslo\"}"
#define M "[TOOL_CALLS]weather[ARGS]" A
#define M_CLOCK "[TOOL_CALLS]clock[CALL_ID]a1B2c3D4e[ARGS]{}"
#define M_MARK "[TOOL_CALLS]weather[ARGS]{\"city\": \"[TOOL_CALLS] [ARGS]\"}"
#define M_MARK_CALL "{\"arguments\":\"{\\\"city\\\": \\\"[TOOL_CALLS] [ARGS]\\\"}\",\"name\":\"weather\"}"
#define H_NEXT "<|start|>assistant"
#define H_THINKS "<|channel|>analysis<|message|>"
#define H_FINAL "<|channel|>final<|message|>"
#define H_CALL "<|channel|>commentary to=functions.weather <|constrain|>json<|message|>"

static const struct {
  const char *text, *content, *thoughts, *calls;
  setting o;
} cases[] = {
    {"Plain.", "Plain.", "", "[]", {0}},
    {"", "", "", "[]", {.tools = true}},
    {" \n", " \n", "", "[]", {0}},
    {"<think>well</think>\n\nIt is.", "It is.", "well", "[]", {0}},
    {"<think>well</think>\n\n", "", "well", "[]", {0}},
    {"\n<think>on and on", "", "on and on", "[]", {0}},
    {"it is so</think> yes", "yes", "it is so", "[]", {.thinks = true}},
    {"a </think> b", "a </think> b", "", "[]", {0}},
    {"Look:\n<tool_call>\n" W "\n</tool_call>", "Look:", "", "[" W_CALL "]", {.tools = true}},
    {"<tool_call>" W "</tool_call>\n<tool_call>" C "</tool_call>", "", "", "[" W_CALL "," C_CALL "]", {.tools = true}},
    {"<tool_call>" W "</tool_call>\n<tool_call>" C "</tool_call>", "", "", "[" W_CALL "]", {.tools = true, .one = true}},
    {"<tool_call>" W "</tool_call>", "<tool_call>" W "</tool_call>", "", "[]", {0}},
    {"<tool_call>" W "</tool_call>\n and more", "and more", "", "[" W_CALL "]", {.tools = true}},
    {"<|tool_call|>[" W "]<|/tool_call|>", "", "", "[" W_CALL "]", {.tools = true}},
    {"[TOOL_CALLS] [" W "," C "]", "", "", "[" W_CALL "," C_CALL "]", {.tools = true}},
    {"<|python_tag|>" W, "", "", "[" W_CALL "]", {.tools = true}},
    {W, "", "", "[" W_CALL "]", {.tools = true}},
    {" [" W "]", "", "", "[" W_CALL "]", {.tools = true}},
    {"<think>a</think>\n" C, "", "a", "[" C_CALL "]", {.tools = true}},
    {"<tool_call>\n" X "\n</tool_call>", "", "", "[" W_CALL "]", {.tools = true}},
    {"So:\n" X "\n\nDone.", "So:Done.", "", "[" W_CALL "]", {.tools = true}},
    {"<tool_call>" X_MORE "</tool_call>", "", "", "[" X_MORE_CALL "]", {.tools = true}},
    {"<tool_call><function=clock></function>\n" X "</tool_call>", "", "", "[" C_CALL "," W_CALL "]", {.tools = true}},
    {"<tool_call><function=clock></function>\n" X "</tool_call>", "", "", "[" C_CALL "]", {.tools = true, .one = true}},
    {"<function=weather><parameter=city>Oslo</function>", "<function=weather><parameter=city>Oslo</function>", "", "[]", {.tools = true}},
    {"<function=></function>", "<function=></function>", "", "[]", {.tools = true}},
    {X_NOTE("null"), "", "", X_NOTE_CALL("null"), {.tools = true}},
    {X_NOTE("5"), "", "", X_NOTE_CALL("\\\"5\\\""), {.tools = true}},
    {X, X, "", "[]", {0}},
    {"{\"name\": \"nobody\", \"arguments\": {}}", "{\"name\": \"nobody\", \"arguments\": {}}", "", "[]", {.tools = true}},
    {"<tool_call>{\"na</tool_call> x", "<tool_call>{\"na</tool_call> x", "", "[]", {.tools = true}},
    {"a < b <tool <tool_caller> <tool_", "a < b <tool <tool_caller> <tool_", "", "[]", {.tools = true}},
    {"[1, 2]", "[1, 2]", "", "[]", {.tools = true}},
    {"[TOOL_", "[TOOL_", "", "[]", {.tools = true}},
    {"said \n ", "said \n ", "", "[]", {.tools = true}},
    {M, "", "", "[" W_CALL "]", {.tools = true}},
    {"Let me look.\n" M "\n", "Let me look.", "", "[" W_CALL "]", {.tools = true}},
    {M M_CLOCK, "", "", "[" W_CALL "," C_CALL "]", {.tools = true}},
    {M_CLOCK " \n" M, "", "", "[" C_CALL "," W_CALL "]", {.tools = true}},
    {M M_CLOCK, "", "", "[" W_CALL "]", {.tools = true, .one = true}},
    {M_MARK, "", "", "[" M_MARK_CALL "]", {.tools = true}},
    {M M_MARK M, "", "", "[" W_CALL "," M_MARK_CALL "," W_CALL "]", {.tools = true}},
    {"[TOOL_CALLS]clock[ARGS]", "", "", "[" C_CALL "]", {.tools = true}},
    {"[TOOL_CALLS]clock[ARGS]" M, "", "", "[" C_CALL "," W_CALL "]", {.tools = true}},
    {"[TOOL_CALLS] [" C "]" M, "", "", "[" C_CALL "," W_CALL "]", {.tools = true}},
    {M, M, "", "[]", {0}},
    {M " and more", M " and more", "", "[]", {.tools = true}},
    {M "[TOOL_CALLS]clock[ARGS]{\"na", "[TOOL_CALLS]clock[ARGS]{\"na", "", "[" W_CALL "]", {.tools = true}},
    {"[TOOL_CALLS]weather[ARGS]7", "[TOOL_CALLS]weather[ARGS]7", "", "[]", {.tools = true}},
    {"[TOOL_CALLS]weather[CALL_ID][ARGS]{}", "[TOOL_CALLS]weather[CALL_ID][ARGS]{}", "", "[]", {.tools = true}},
    {"[TOOL_CALLS][ARGS]{}", "[TOOL_CALLS][ARGS]{}", "", "[]", {.tools = true}},
    {"[TOOL_CALLS]a b[ARGS]{}", "[TOOL_CALLS]a b[ARGS]{}", "", "[]", {.tools = true}},
    {"[THINK]Hm.[/THINK]It is.", "It is.", "Hm.", "[]", {0}},
    {"[THINK]Hm. </think>[/THINK]" M, "", "Hm. </think>", "[" W_CALL "]", {.tools = true}},
    {"[THIN", "[THIN", "", "[]", {0}},
    {H_THINKS "Hm.<|end|>" H_NEXT H_FINAL "It is.<|return|>", "It is.", "Hm.", "[]", {0}},
    {H_FINAL "It < is.", "It < is.", "", "[]", {0}},
    {H_THINKS "on and <|e", "", "on and <|e", "[]", {.tools = true}},
    {H_THINKS "Hm.<|end|>" H_NEXT H_CALL A "<|call|>", "", "Hm.", "[" W_CALL "]", {.tools = true}},
    {H_THINKS "Hm.<|end|>" H_NEXT H_CALL A, "", "Hm.", "[" W_CALL "]", {.tools = true}},
    {H_CALL A "<|call|>" H_NEXT "<|channel|>commentary to=functions.clock<|message|><|call|>", "", "", "[" W_CALL "," C_CALL "]", {.tools = true}},
    {H_CALL A "<|call|>" H_NEXT "<|channel|>commentary to=functions.clock<|message|><|call|>", "", "", "[" W_CALL "]", {.tools = true, .one = true}},
    {"<|channel|>commentary to=functions.clock<|message|>", "", "", "[" C_CALL "]", {.tools = true}},
    {" to=functions.weather<|channel|>commentary json<|message|>" A, "", "", "[" W_CALL "]", {.tools = true}},
    {"<|start|>assistant to=functions.weather<|channel|>analysis code<|message|>" A "<|call|>", "", "", "[" W_CALL "]", {.tools = true}},
    {"<|channel|>commentary<|message|>Let me look.<|end|>" H_NEXT H_CALL A "<|call|>", "Let me look.", "", "[" W_CALL "]", {.tools = true}},
    {H_CALL A "<|call|>", A, "", "[]", {0}},
    {H_CALL "{\"city\": <|call|>", "{\"city\": ", "", "[]", {.tools = true}},
    {H_CALL "[1]<|call|>", "[1]", "", "[]", {.tools = true}},
    {H_THINKS "Hm.<|end|>\n", "", "Hm.", "[]", {0}},
    {H_THINKS "Hm.<|end|>So <", "So <", "Hm.", "[]", {0}},
    {"<|channel|>ana", "", "", "[]", {.tools = true}},
    {"<|channel", "<|channel", "", "[]", {.tools = true}},
    {"to=you and <|channel|>", "to=you and <|channel|>", "", "[]", {0}},
    {"to be", "to be", "", "[]", {.tools = true}},
    {"a <|channel|>final<|message|>", "a <|channel|>final<|message|>", "", "[]", {.tools = true}},
};

static void test_cases(void) {
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    heard h = hear(cases[i].text, cases[i].o, SIZE_MAX, 1);
    const bool good = strcmp(h.content, cases[i].content) == 0 && strcmp(h.thoughts, cases[i].thoughts) == 0 &&
                      strcmp(h.calls, cases[i].calls) == 0;
    if (!good) printf("\n  [%s]: [%s] [%s] %s", cases[i].text, h.content, h.thoughts, h.calls);
    CU_ASSERT_TRUE(good);
    forget(&h);
    alike(cases[i].text, cases[i].o);
  }
}

static void test_random(void) {
  static const char *const parts[] = {"<think>", "</think>", "<tool_call>", "</tool_call>", "<|tool_call|>", "<|/tool_call|>",
                                      "[TOOL_CALLS]", "<|python_tag|>", W, C, "[" C "]", " ", "\n\n", "words and", "<", "</", "[", "{",
                                      "<tool_", X, "<function=", "<parameter=", "</function>", "<|", "]", "\xc3\xa9",
                                      H_THINKS, H_FINAL, H_CALL, A, H_NEXT, M, M_CLOCK, M_MARK, "[ARGS]", "[CALL_ID]", "[THINK]", "[/THINK]", "<|end|>", "<|call|>", "<|message|>", "<|channel|>", "to=", "to=x "};
  uint32_t state = 3;
  for (int i = 0; i < RANDOM; i++) {
    char text[1024] = "";
    for (int k = 0; k < PARTS; k++) {
      state = state * 1664525u + 1013904223u;
      strcat(text, parts[(state >> 12) % (sizeof parts / sizeof *parts)]);
    }
    state = state * 1664525u + 1013904223u;
    alike(text, (setting){.tools = (state >> 20) % 4 != 0, .one = (state >> 24) % 4 == 0, .thinks = (state >> 28) % 4 == 0});
    if (CU_get_number_of_failures() > 50) return; /* enough to see */
  }
}

/* An id that the model wrote is the call's, but where an earlier one has it; others have nine letters and digits. */
static void test_ids(void) {
  static const char text[] = M_CLOCK M_CLOCK M "[TOOL_CALLS] [{\"name\": \"clock\", \"arguments\": {}, \"id\": \"VvvODy9mT\"}]";
  srv_speech s;
  srv_speech_init(&s, tools, false, false);
  srv_speech_push(&s, text, sizeof text - 1, true);
  CU_ASSERT_EQUAL_FATAL(json_array_size(s.calls), 4);
  const char *id[4];
  for (size_t i = 0; i < 4; i++) {
    id[i] = json_string_value(json_object_get(json_array_get(s.calls, i), "id"));
    CU_ASSERT_EQUAL(strlen(id[i]), 9);
    CU_ASSERT_EQUAL(strspn(id[i], "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"), 9);
    for (size_t k = 0; k < i; k++) CU_ASSERT_STRING_NOT_EQUAL(id[i], id[k]);
  }
  CU_ASSERT_STRING_EQUAL(id[0], "a1B2c3D4e");
  CU_ASSERT_STRING_EQUAL(id[3], "VvvODy9mT");
  srv_speech_finish(&s);
}

/* A call is said when the next one begins, not at the end. */
static void test_early(void) {
  srv_speech s;
  srv_speech_init(&s, tools, false, false);
  srv_speech_push(&s, M "[TOOL_CALLS]", sizeof M - 1 + 12, false);
  CU_ASSERT_EQUAL(json_array_size(s.calls), 1);
  srv_speech_push(&s, "clock[ARGS]{}", 13, false);
  CU_ASSERT_EQUAL(json_array_size(s.calls), 1);
  srv_speech_push(&s, "", 0, true);
  CU_ASSERT_EQUAL(json_array_size(s.calls), 2);
  srv_speech_finish(&s);
}

int main(void) {
  tools = json_loads("[{\"function\": {\"name\": \"weather\", \"parameters\": {\"properties\": {\"city\": {\"type\": \"string\"}, "
                     "\"days\": {\"type\": \"integer\"}, \"units\": {\"enum\": [\"m\"]}, \"at\": "
                     "{\"type\": \"object\"}, \"note\": {\"type\": [\"string\", \"null\"]}}}}}, "
                     "{\"function\": {\"name\": \"clock\"}}]", 0, NULL);
  CU_initialize_registry();
  CU_pSuite s = CU_add_suite("speech", NULL, NULL);
  CU_add_test(s, "cases", test_cases);
  CU_add_test(s, "pieces of anything", test_random);
  CU_add_test(s, "ids", test_ids);
  CU_add_test(s, "one by one", test_early);
  CU_basic_set_mode(CU_BRM_VERBOSE);
  CU_basic_run_tests();
  const unsigned failed = CU_get_number_of_failures();
  CU_cleanup_registry();
  json_decref(tools);
  return failed != 0;
}
