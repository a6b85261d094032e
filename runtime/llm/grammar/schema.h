/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON Schema (2020-12, and what older drafts wrote otherwise) to rules. schema.c: choices, types; schema_ref.c:
 * references; schema_merge.c: two schemas that hold of one value as one; one file for each kind of value.
 *
 * What comes out is never more than the schema allows, and may be less: properties come in the order of the schema,
 * numbers have at most 15 digits, and a schema that says nothing of types means those that its keywords speak of. What
 * cannot be kept is TN_E_UNSUPPORTED with the path of the keyword.
 */
#ifndef TENON_LLM_GRAMMAR_SCHEMA_H
#define TENON_LLM_GRAMMAR_SCHEMA_H

#include "runtime/base/base.h"
#include "runtime/base/json.h"
#include "runtime/llm/grammar/auto.h"
#include "runtime/llm/grammar/nfa.h"
#include "runtime/llm/text/text.h"

enum {
  TNI_SCHEMA_DEPTH = 128, /* schemas inside of schemas */
  TNI_SCHEMA_RULES = 1 << 15,
  TNI_SCHEMA_CHOICES = 1024, /* of one value */
  TNI_SCHEMA_ITEMS = 100000, /* that a count may name */
  TNI_SCHEMA_KEYS = 1 << 26, /* bytes of all schemas' texts */
  TNI_SCHEMA_WORK = 1 << 24  /* about a second */
};

typedef struct tni_schema {
  tni_auto *a;
  json_t *root;
  json_t *kept;   /* schemas that were made of others */
  tni_map *rules; /* text of a schema -> rule */
  uint32_t blank; /* rule: space between tokens, or none */
  tni_str path;   /* "properties.age" */
  unsigned depth;
  size_t n_rules, key_bytes, work;
  bool large; /* a whole number has more than 63 bits, and was read as a real */
  tn_error *err;
  tn_status st; /* the first failure */
} tni_schema;

/* Longer paths; tni_schema_up gives back what was there. */
size_t tni_schema_down(tni_schema *s, const char *key);
size_t tni_schema_down_item(tni_schema *s, const char *key, size_t i);
void tni_schema_up(tni_schema *s, size_t mark);
/* "schema: PATH.key: ..."; key "" or NULL: the path itself. False. */
bool tni_schema_fail(tni_schema *s, tn_status st, const char *key, const char *fmt, ...) TN_PRINTF(4, 5);
bool tni_schema_memory(tni_schema *s);
/* n more comparisons or so; false: a small schema asks for too many (TN_E_LIMIT). */
bool tni_schema_work(tni_schema *s, size_t n);

/* The rule of a schema, an object or a boolean. It may not be complete yet: schemas refer to themselves. */
bool tni_schema_rule(tni_schema *s, json_t *schema, uint32_t *rule);
/* Takes over a reference. NULL: no memory, and it is said. */
json_t *tni_schema_keep(tni_schema *s, json_t *made);

/* What a "$ref" names; NULL: it failed. */
json_t *tni_schema_resolve(tni_schema *s, const json_t *ref);
/* Once, at the beginning: a "#..." in a part with an "$id" of its own is meant from there, and is written so. */
void tni_schema_anchor_refs(tni_schema *s);
/* schema without the keyword `without` and without remarks (title, $defs), kept. */
json_t *tni_schema_rest(tni_schema *s, json_t *schema, const char *without);
/* schema without $ref and allOf, borrowed; one of them alone may be `schema` itself. */
json_t *tni_schema_flat(tni_schema *s, json_t *schema);
/* a, and b that is a part of it (allOf, $ref, a choice), as one: a new reference, NULL where it fails (said). */
json_t *tni_schema_merge(tni_schema *s, json_t *a, json_t *b);
/* True: no value is of both. */
bool tni_schema_apart(tni_schema *s, json_t *a, json_t *b, unsigned depth);

/* Types as bits. */
enum {
  TNI_TYPE_NULL = 1,
  TNI_TYPE_BOOLEAN = 2,
  TNI_TYPE_INTEGER = 4,
  TNI_TYPE_NUMBER = 8,
  TNI_TYPE_STRING = 16,
  TNI_TYPE_ARRAY = 32,
  TNI_TYPE_OBJECT = 64,
  TNI_TYPE_ALL = 127
};
/* Those that "type" allows, all without it. */
bool tni_schema_types(tni_schema *s, const json_t *schema, unsigned *types);
unsigned tni_value_type(const json_t *v);

/* Edges of one kind of value, of a flat schema. */
bool tni_schema_object(tni_schema *s, json_t *schema, uint32_t from, uint32_t to);
bool tni_schema_array(tni_schema *s, json_t *schema, uint32_t from, uint32_t to);
bool tni_schema_string(tni_schema *s, json_t *schema, uint32_t from, uint32_t to);
bool tni_schema_number(tni_schema *s, json_t *schema, bool integer, uint32_t from, uint32_t to);
/* A string's keywords as a form; finish it. */
typedef struct tni_string_parts {
  tni_string_form form;
  tni_nfa nfas[TNI_NFA_TOGETHER];
} tni_string_parts;
bool tni_schema_string_form(tni_schema *s, json_t *schema, tni_string_parts *out);
void tni_string_parts_finish(tni_string_parts *p);
/* schema[key], an integer from 0; absent: what *v was. */
bool tni_schema_count(tni_schema *s, const json_t *schema, const char *key, uint32_t *v);

#endif
