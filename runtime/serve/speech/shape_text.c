/* SPDX-License-Identifier: Apache-2.0
 *
 * Grammars of answers, in GBNF. Rules of the tool i: n its name, a its arguments, o an object that calls it, c a call
 * with all its marks.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/serve/speech/callargs.h"
#include "runtime/serve/speech/callmarks.h"
#include "runtime/serve/speech/callxml.h"
#include "runtime/serve/speech/shape.h"

/* A literal of GBNF. */
static void put_literal(FILE *out, const char *s) {
  fputc('"', out);
  for (; *s; s++) {
    if (*s == '"' || *s == '\\')
      fprintf(out, "\\%c", *s);
    else if ((unsigned char)*s < ' ' || *s == 0x7f)
      fprintf(out, "\\x%02x", (unsigned)*s);
    else
      fputc(*s, out);
  }
  fputc('"', out);
}

/* The literal of a value as JSON has it. */
static void put_json(FILE *out, const json_t *v) {
  char *text = json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY);
  put_literal(out, text ? text : "");
  free(text);
}

static const json_t *function_of(const srv_shape_wish *w, size_t i) {
  return json_object_get(json_array_get(w->tools, i), "function");
}

static const char *name_of(const srv_shape_wish *w, size_t i) {
  return json_string_value(json_object_get(function_of(w, i), "name"));
}

static bool is_wanted(const srv_shape_wish *w, size_t i) {
  const char *name = name_of(w, i);
  return name && (!w->only || strcmp(w->only, name) == 0);
}

static const json_t *parameters_of(const srv_shape_wish *w, size_t i) {
  const json_t *p = json_object_get(function_of(w, i), "parameters");
  return json_is_object(p) && !(w->any && w->any[i]) ? p : NULL;
}

static void put_schema(FILE *out, const json_t *schema) {
  char *text = schema ? json_dumps(schema, JSON_COMPACT) : NULL;
  fprintf(out, "%%json %s", text ? text : "{\"type\":\"object\"}");
  free(text);
}

/* Arguments are objects even where the schema does not say so. */
static void put_arguments(FILE *out, const srv_shape_wish *w, size_t i) {
  const json_t *p = parameters_of(w, i);
  json_t *object = p && !json_object_get(p, "type") ? json_copy((json_t *)(uintptr_t)p) : NULL;
  if (object) json_object_set_new(object, "type", json_string("object"));
  fprintf(out, "a%zu ::= ", i);
  put_schema(out, object ? object : p);
  fputc('\n', out);
  json_decref(object);
}

static void put_name(FILE *out, const srv_shape_wish *w, size_t i) {
  fprintf(out, "n%zu ::= ", i);
  put_literal(out, name_of(w, i));
  fprintf(out, "\nj%zu ::= ", i);
  put_json(out, json_object_get(function_of(w, i), "name"));
  fputc('\n', out);
}

/* {"name": ..., "arguments": ...}, by the names that the shape gives these. */
static void put_object(FILE *out, const srv_shape_wish *w, size_t i) {
  const bool action = w->shape == SRV_SHAPE_ACTION || w->shape == SRV_SHAPE_ACTION_BLOCK,
             bare = w->shape <= SRV_SHAPE_PARAMETERS;
  const char *arguments = bare     ? "(\"\\\"arguments\\\"\" | \"\\\"parameters\\\"\")"
                          : action ? "\"\\\"parameters\\\"\""
                                   : "\"\\\"arguments\\\"\"";
  fprintf(
      out, "o%zu ::= \"{\" b %s\"\\\"%s\\\"\" b \":\" b j%zu b \",\" b %s b \":\" b a%zu b %s\"}\"\n", i,
      w->shape == SRV_SHAPE_ACTION ? "(\"\\\"tool_call_id\\\"\" b \":\" b \"\\\"\" [0-9]{1,4} \"\\\"\" b \",\" b)? "
                                   : "",
      action ? "tool_name" : "name", i, arguments, i,
      w->shape == SRV_SHAPE_MISTRAL ? "(\",\" b \"\\\"id\\\"\" b \":\" b \"\\\"\" [a-zA-Z0-9]{9} \"\\\"\" b)? " : "");
}

/* --- <function=NAME> ---------------------------------------------------------------------------------------------- */

/* Longer texts may hold "<", and their length is looked at when they are there. */
enum { COUNTED = 256 };

/* Text as the lengths of its schema allow; lines around it are not part of it. */
static void put_text(FILE *out, const json_t *p) {
  const json_t *min = json_object_get(p, "minLength"), *max = json_object_get(p, "maxLength");
  const json_int_t least = json_integer_value(min), most = json_integer_value(max);
  const bool counts = json_is_integer(max) && most >= least && most <= COUNTED;
  if (least > 0 && least <= COUNTED) fprintf(out, "[^<\\n]{%d} ", (int)least);
  if (!counts)
    fputs("%without(\"</parameter>\")", out);
  else if (most > 0)
    fprintf(out, "[^<]{0,%d}", (int)(least > 0 ? most - least : most));
  else
    fputs("\"\"", out);
}

/* The value as text, where the form has it. */
static bool put_choice(FILE *out, const json_t *v, srv_callxml_form form, bool first) {
  const char *text = json_is_null(v) && form == SRV_CALLXML_TEXT_OR_NULL ? "null" : json_string_value(v);
  if (!text) return false;
  if (!first) fputs(" | ", out);
  put_literal(out, text);
  return true;
}

/* Between the tags of a parameter: text as it is, all else as JSON. */
static void put_value(FILE *out, const json_t *whole, const json_t *p) {
  const srv_callxml_form form = srv_callxml_form_of(p);
  const json_t *list = json_object_get(p, "enum"), *only = json_object_get(p, "const"), *one;
  size_t i, n = 0;
  if (form != SRV_CALLXML_JSON) {
    fputc('(', out);
    if (only) n += put_choice(out, only, form, true);
    if (!only) json_array_foreach(list, i, one) n += put_choice(out, one, form, !n);
    if (!n) put_text(out, p);
    if (!n && form == SRV_CALLXML_TEXT_OR_NULL) fputs(" | \"null\"", out);
    fputc(')', out);
    return;
  }
  json_t *own = json_is_object(p) ? json_copy((json_t *)(uintptr_t)p) : json_object();
  for (size_t k = 0; k < 2; k++) { /* what "#/$defs/..." leads to */
    static const char *const defs[] = {"$defs", "definitions"};
    json_t *all = json_object_get(whole, defs[k]);
    if (all && !json_object_get(own, defs[k])) json_object_set(own, defs[k], all);
  }
  put_schema(out, own);
  json_decref(own);
}

static bool is_required(const json_t *schema, const char *key) {
  const json_t *one;
  size_t i;
  json_array_foreach(json_object_get(schema, "required"), i,
                     one) if (json_is_string(one) && strcmp(json_string_value(one), key) == 0) return true;
  return false;
}

/* Parameters in the order of the schema; of a schema that names none, any. */
static void put_xml(FILE *out, const srv_shape_wish *w, size_t i) {
  const json_t *schema = parameters_of(w, i);
  json_t *properties = json_object_get(schema, "properties"), *p;
  const char *key;
  size_t k = 0;
  json_object_foreach(properties, key, p) {
    fprintf(out, "p%zu-%zu ::= \"<parameter=\" ", i, k++);
    put_literal(out, key);
    fputs(" \">\" l ", out);
    put_value(out, schema, p);
    fputs(" l \"</parameter>\" l\n", out);
  }
  fprintf(out, "c%zu ::= \"<function=\" n%zu \">\" l", i, i);
  k = 0;
  json_object_foreach(properties, key, p) {
    fprintf(out, " p%zu-%zu%s", i, k, is_required(schema, key) ? "" : "?");
    k++;
  }
  if (!schema)
    fputs(" (\"<parameter=\" [a-zA-Z0-9_-]{1,64} \">\" %without(\"</parameter>\") \"</parameter>\" l)*", out);
  fputs(" \"</function>\"\n", out);
}

/* --- one call ----------------------------------------------------------------------------------------------------- */

#define TOKEN(text) "%token(\"" text "\")"

/* A rule in which @ is the number of the tool. */
static void put_numbered(FILE *out, const char *rule, size_t i) {
  for (; *rule; rule++) {
    if (*rule == '@')
      fprintf(out, "%zu", i);
    else
      fputc(*rule, out);
  }
}

static void put_call(FILE *out, const srv_shape_wish *w, size_t i) {
  put_name(out, w, i);
  if (w->shape == SRV_SHAPE_XML) {
    put_xml(out, w, i);
    return;
  }
  put_arguments(out, w, i);
  switch (w->shape) {
    case SRV_SHAPE_ARGS:
      put_numbered(out, "c@ ::= n@ " TOKEN(SRV_CALLARGS_ARGS) " a@\n", i);
      break;
    case SRV_SHAPE_ARGS_ID:
      put_numbered(out, "c@ ::= n@ (" TOKEN(SRV_CALLARGS_ID) " [a-zA-Z0-9]{9})? " TOKEN(SRV_CALLARGS_ARGS) " a@\n", i);
      break;
    case SRV_SHAPE_HARMONY:
      put_numbered(out,
                   "c@ ::= n@ (" TOKEN("<|channel|>") " \"commentary\")? \" \"? (" TOKEN(
                       "<|constrain|>") "? \"json\")? " TOKEN("<|message|>") " b a@ b\n",
                   i);
      break;
    case SRV_SHAPE_DEEPSEEK:
      put_numbered(out, "c@ ::= n@ " TOKEN(SRV_DEEPSEEK_SEP) " b a@ b " TOKEN(SRV_DEEPSEEK_ONE_END) "\n", i);
      break;
    case SRV_SHAPE_DEEPSEEK_R1:
      put_numbered(out,
                   "c@ ::= \"function\" " TOKEN(SRV_DEEPSEEK_SEP) " n@ \"\\n```json\\n\" a@ \"\\n```\" b " TOKEN(
                       SRV_DEEPSEEK_ONE_END) "\n",
                   i);
      break;
    case SRV_SHAPE_KIMI:
      put_numbered(out,
                   "c@ ::= " TOKEN(SRV_KIMI_ONE) " \"functions.\" n@ \":\" [0-9]{1,3} " TOKEN(
                       SRV_KIMI_SEP) " b a@ b " TOKEN(SRV_KIMI_ONE_END) "\n",
                   i);
      break;
    default:
      put_object(out, w, i);
      put_numbered(out, "c@ ::= o@\n", i);
  }
}

/* --- all of them -------------------------------------------------------------------------------------------------- */

/* What a call begins with, for %without; `calls` and `more`: the first of an answer and those after it. */
typedef struct shape_row {
  const char *opens, *calls, *more;
} shape_row;

static const char many[] = "list ::= \"[\" b any (b \",\" b any)* b \"]\"\n",
                  single[] = "list ::= \"[\" b any b \"]\"\n";

static const shape_row rows[SRV_SHAPES] = {
    [SRV_SHAPE_JSON] = {NULL, "any", NULL},
    [SRV_SHAPE_PARAMETERS] = {NULL, TOKEN("<|python_tag|>") "? any", NULL},
    [SRV_SHAPE_TOOL_CALL] = {"\"<tool_call>\"", TOKEN("<tool_call>") " b any b " TOKEN("</tool_call>"), "b calls"},
    [SRV_SHAPE_LIST] = {"\"<|tool_call|>\"", TOKEN("<|tool_call|>") " b list b " TOKEN("<|/tool_call|>"), NULL},
    [SRV_SHAPE_XML] = {"\"<tool_call>\", \"<function=\"",
                       "(any | " TOKEN("<tool_call>") " b any b " TOKEN("</tool_call>") ")", "b calls"},
    [SRV_SHAPE_MISTRAL] = {"\"" SRV_CALLARGS_OPEN "\"", TOKEN(SRV_CALLARGS_OPEN) " b list", NULL},
    [SRV_SHAPE_ARGS] = {"\"" SRV_CALLARGS_OPEN "\"", TOKEN(SRV_CALLARGS_OPEN) " any", "calls"},
    [SRV_SHAPE_ARGS_ID] = {"\"" SRV_CALLARGS_OPEN "\"", TOKEN(SRV_CALLARGS_OPEN) " any", "calls"},
    [SRV_SHAPE_HARMONY] = {"\"to=functions.\"", "\"to=functions.\" any " TOKEN("<|call|>") "?", NULL},
    [SRV_SHAPE_DEEPSEEK] = {"\"" SRV_DEEPSEEK_ALL "\", \"" SRV_DEEPSEEK_ONE "\"",
                            "(one | " TOKEN(SRV_DEEPSEEK_ALL) " b one{times} b " TOKEN(SRV_DEEPSEEK_ALL_END) ")",
                            "b one"},
    [SRV_SHAPE_DEEPSEEK_R1] = {"\"" SRV_DEEPSEEK_ALL "\", \"" SRV_DEEPSEEK_ONE "\"",
                               "(one | " TOKEN(SRV_DEEPSEEK_ALL) " b one{times} b " TOKEN(SRV_DEEPSEEK_ALL_END) ")",
                               "b one"},
    [SRV_SHAPE_KIMI] = {"\"" SRV_KIMI_ALL "\"", TOKEN(SRV_KIMI_ALL) " any{times} " TOKEN(SRV_KIMI_ALL_END), NULL},
    [SRV_SHAPE_ACTION] = {"\"" SRV_ACTION "\"", TOKEN(SRV_ACTION) " b list b " TOKEN(SRV_ACTION_END), NULL},
    [SRV_SHAPE_ACTION_BLOCK] = {"\"" SRV_ACTION_BLOCK "\"",
                                "\"" SRV_ACTION_BLOCK "\" b list b \"" SRV_ACTION_BLOCK_END "\"", NULL}};

/* {times}: once, or as often as the model wants. */
static void put_times(FILE *out, const char *rule, bool one) {
  static const char times[] = "{times}";
  const char *at = strstr(rule, times);
  if (!at) {
    fputs(rule, out);
    return;
  }
  fprintf(out, "%.*s%s%s", (int)(at - rule), rule, one ? "" : "+", at + sizeof times - 1);
}

/* Where a call that must come comes: after the model's thoughts, if it has them. */
static void put_must(FILE *out, const srv_shape_wish *w) {
  const bool channels = w->shape == SRV_SHAPE_HARMONY;
  fputs("root ::= ", out);
  if (channels)
    fputs("(" TOKEN("<|channel|>") " \"analysis\" " TOKEN("<|message|>") " %without(\"<|end|>\", \"to=functions.\") " TOKEN("<|end|>") " " TOKEN("<|start|>") " \"assistant\")? "
          TOKEN("<|channel|>") " \"commentary \" ", out);
  else if (w->thinks)
    fputs("%without(\"</think>\") " TOKEN("</think>") " b ", out);
  else if (w->may_think)
    fputs("(b (" TOKEN("<think>") " %without(\"</think>\") " TOKEN("</think>") " | " TOKEN(
              "[THINK]") " %without(\"[/THINK]\") " TOKEN("[/THINK]") ") b)? ",
          out);
  fputs(w->one || !rows[w->shape].more ? "calls\n" : "calls more*\n", out);
}

/* What begins like a call is one. Thoughts may speak of calls. */
static void put_may(FILE *out, const srv_shape_wish *w) {
  const shape_row *row = &rows[w->shape];
  fputs(w->thinks
            ? "root ::= %without(\"</think>\") (" TOKEN("</think>") " said)?\n"
            : "root ::= said | b (" TOKEN("<think>") " %without(\"</think>\") (" TOKEN("</think>") " said)? | " TOKEN(
                  "[THINK]") " %without(\"[/THINK]\") (" TOKEN("[/THINK]") " said)?)\n",
        out);
  if (row->opens) {
    fprintf(out, w->one ? "said ::= free (calls b)?\n" : "said ::= free (calls free)*\n");
    fprintf(out, "free ::= %%without(%s)\n", row->opens);
    return;
  }
  fputs("said ::= b calls b | %unlike(", out);
  bool first = true;
  for (size_t i = 0; i < json_array_size(w->tools); i++) {
    json_t *name = json_object_get(function_of(w, i), "name");
    char *text = name ? json_dumps(name, JSON_ENCODE_ANY) : NULL;
    for (size_t k = 0; text && k < 2; k++) {
      char *all = malloc(strlen(text) + 16);
      if (all) sprintf(all, k ? "{\"name\":%s" : "{\"name\": %s", text);
      if (!first) fputs(", ", out);
      first = false;
      put_literal(out, all ? all : "{");
      free(all);
    }
    free(text);
  }
  fputs(")\n", out);
}

bool srv_shape_write(FILE *out, const srv_shape_wish *w) {
  const shape_row *row = &rows[w->shape];
  size_t n = 0;
  if (w->must)
    put_must(out, w);
  else
    put_may(out, w);
  fputs("calls ::= ", out);
  put_times(out, row->calls, w->one);
  fprintf(out, "\n%s", w->one ? single : many);
  if (row->more) fprintf(out, "more ::= %s\n", row->more);
  fputs("one ::= " TOKEN(SRV_DEEPSEEK_ONE) " any\nb ::= \" \"? | \"\\n\" [ \\t]{0,20}\nl ::= \"\\n\"?\nany ::= ", out);
  for (size_t i = 0; i < json_array_size(w->tools); i++)
    if (is_wanted(w, i)) fprintf(out, n++ ? " | c%zu" : "c%zu", i);
  fputc('\n', out);
  for (size_t i = 0; i < json_array_size(w->tools); i++)
    if (is_wanted(w, i)) put_call(out, w, i);
  return n > 0;
}
