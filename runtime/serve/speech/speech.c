/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/serve/speech/speech.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "runtime/base/base.h"
#include "runtime/serve/speech/callargs.h"
#include "runtime/serve/speech/callmarks.h"
#include "runtime/serve/speech/callxml.h"
#include "runtime/serve/speech/harmony.h"
#include "runtime/serve/speech/rest.h"
#include "runtime/serve/speech/valid.h"

/* How families of models mark calls. close NULL: to the end of the text. */
static const struct {
  const char *open, *close;
} tags[] = {{"<tool_call>", "</tool_call>"},
            {"<|tool_call|>", "<|/tool_call|>"},
            {SRV_CALLXML_OPEN, "</function>"},
            {SRV_CALLARGS_OPEN, NULL},
            {"<|python_tag|>", NULL},
            {SRV_DEEPSEEK_ALL, SRV_DEEPSEEK_ALL_END},
            {SRV_DEEPSEEK_ONE, SRV_DEEPSEEK_ONE_END},
            {SRV_KIMI_ALL, SRV_KIMI_ALL_END},
            {SRV_ACTION, SRV_ACTION_END},
            {SRV_ACTION_BLOCK, SRV_ACTION_BLOCK_END}};
enum { LIST = 3, TAGS = sizeof tags / sizeof *tags, BARE = TAGS };

/* How they mark thoughts. */
static const struct { const char *open, *close; } thought_tags[] = {{"<think>", "</think>"}, {"[THINK]", "[/THINK]"}};
enum { THOUGHT_TAGS = sizeof thought_tags / sizeof *thought_tags };

static const char head_end[] = "<|message|>";
static const char *const body_ends[] = {"<|start|>", "<|end|>", "<|return|>", "<|call|>"};
enum { BODY_ENDS = sizeof body_ends / sizeof *body_ends };

const char *const srv_speech_marks[] = {"<|start|>",
                                        "<|channel|>",
                                        "<|constrain|>",
                                        "<|message|>",
                                        "<|end|>",
                                        "<|return|>",
                                        "<|call|>",
                                        "<tool_call>",
                                        "</tool_call>",
                                        "<|tool_call|>",
                                        "<|/tool_call|>",
                                        SRV_CALLARGS_OPEN,
                                        SRV_CALLARGS_ID,
                                        SRV_CALLARGS_ARGS,
                                        "<|python_tag|>",
                                        "<think>",
                                        "</think>",
                                        "[THINK]",
                                        "[/THINK]",
                                        SRV_DEEPSEEK_ALL,
                                        SRV_DEEPSEEK_ALL_END,
                                        SRV_DEEPSEEK_ONE,
                                        SRV_DEEPSEEK_ONE_END,
                                        SRV_DEEPSEEK_SEP,
                                        SRV_KIMI_ALL,
                                        SRV_KIMI_ALL_END,
                                        SRV_KIMI_ONE,
                                        SRV_KIMI_ONE_END,
                                        SRV_KIMI_SEP,
                                        SRV_ACTION,
                                        SRV_ACTION_END};
const unsigned srv_speech_n_marks = sizeof srv_speech_marks / sizeof *srv_speech_marks, srv_speech_n_channel_marks = 7;

static void add_text(srv_speech *s, srv_buffer *t, const char *text, size_t n) {
  if (n + 1 > t->cap - t->n) {
    const size_t cap = (t->n + n) * 2 + 64;
    char *grown = realloc(t->v, cap);
    if (!grown) {
      s->no_memory = true;
      return;
    }
    t->v = grown;
    t->cap = cap;
  }
  if (n) memcpy(t->v + t->n, text, n);
  t->n += n;
  t->v[t->n] = 0;
}

static void drop(srv_buffer *t, size_t n) {
  memmove(t->v, t->v + n, t->n - n + 1);
  t->n -= n;
}

void srv_speech_init(srv_speech *s, const json_t *tools, bool one, bool thinks) {
  *s = (srv_speech){.tools = tools, .one = one, .thinks = thinks, .began = thinks, .tag = -1};
}

void srv_speech_finish(srv_speech *s) {
  free(s->held.v);
  free(s->content.v);
  free(s->thoughts.v);
  free(s->name.v);
  json_decref(s->calls);
  *s = (srv_speech){.tag = -1};
}

/* --- calls -------------------------------------------------------------------------------------------------------- */

/* Whether there is such a tool, and these are arguments of it. */
static bool is_call(const srv_speech *s, const char *name, const json_t *arguments) {
  const json_t *tool;
  size_t i;
  json_array_foreach(s->tools, i, tool) {
    const json_t *f = json_object_get(tool, "function");
    const char *n = json_string_value(json_object_get(f, "name"));
    if (n && strcmp(n, name) == 0) return srv_valid(json_object_get(f, "parameters"), arguments);
  }
  return false;
}

/* Nine letters and digits: what templates of Mistral ask of an id. */
enum { ID_LETTERS = 9, LONGEST_ID = 64 };
static void draw_id(char *out) {
  static const char letters[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  uint64_t v = 0;
  if (getrandom(&v, sizeof v, 0) < 0) v = (uint64_t)tni_now_ns();
  for (int i = 0; i < ID_LETTERS; i++, v /= sizeof letters - 1) out[i] = letters[v % (sizeof letters - 1)];
  out[ID_LETTERS] = 0;
}

/* The model's own, where it wrote one that no call before has. */
static const char *id_of(const json_t *before, const json_t *j, char *drawn) {
  const char *own = json_string_value(json_object_get(j, "id"));
  const json_t *c;
  size_t i;
  if (own && *own && strlen(own) <= LONGEST_ID) {
    json_array_foreach(before, i, c) if (strcmp(json_string_value(json_object_get(c, "id")), own) == 0) break;
    if (i >= json_array_size(before)) return own;
  }
  draw_id(drawn);
  return drawn;
}

/* An object, also where the model wrote it as a text. NULL: it is none. */
static json_t *open_arguments(const json_t *j) {
  if (!j) return json_object();
  if (json_is_object(j)) return json_incref((json_t *)(uintptr_t)j);
  if (!json_is_string(j)) return NULL;
  const size_t n = json_string_length(j);
  json_t *open = n ? tni_json_loadb(json_string_value(j), n, 0, NULL) : json_object();
  if (json_is_object(open)) return open;
  json_decref(open);
  return NULL;
}

/* One call as the model wrote it, as OpenAI's API has it; NULL: it is none, of no tool, or its arguments are not what
 * the tool's schema says. before: others of the same text; bare: JSON without any mark, which says its arguments. */
static json_t *call_json(const srv_speech *s, const json_t *before, const json_t *j, bool bare) {
  char drawn[ID_LETTERS + 1];
  const char *id = id_of(json_array_size(before) ? before : s->calls, j, drawn);
  if (json_is_object(json_object_get(j, "function"))) j = json_object_get(j, "function");
  const char *name = json_string_value(json_object_get(j, "name"));
  const json_t *arguments = json_object_get(j, "arguments");
  if (!name) name = json_string_value(json_object_get(j, "tool_name"));
  if (!arguments) arguments = json_object_get(j, "parameters");
  if (!name || (bare && !arguments)) return NULL;
  json_t *open = open_arguments(arguments), *call = NULL;
  char *written = open && is_call(s, name, open) ? json_dumps(open, 0) : NULL;
  if (written)
    call = json_pack("{s:s, s:s, s:{s:s, s:s}}", "id", id, "type", "function", "function", "name", name, "arguments",
                     written);
  free(written);
  json_decref(open);
  return call;
}

/* False: the text is no call. */
static bool take_calls(srv_speech *s, const char *text, size_t n, bool bare) {
  json_t *j = json_loadb(text, n, 0, NULL), *found = json_array();
  if (!j && !bare) j = srv_callxml_read(s->tools, text, n);
  if (!j && !bare) j = srv_callargs_read(text, n);
  if (!j && !bare) j = srv_callmarks_read(text, n);
  const size_t count = json_is_array(j) ? json_array_size(j) : 1;
  bool good = j && count > 0;
  for (size_t i = 0; good && i < count; i++) {
    json_t *call = call_json(s, found, json_is_array(j) ? json_array_get(j, i) : j, bare);
    good = call && json_array_append_new(found, call) == 0;
  }
  if (good && !s->calls) s->calls = json_array();
  for (size_t i = 0; good && i < count; i++)
    if (!s->one || json_array_size(s->calls) == 0) json_array_append(s->calls, json_array_get(found, i));
  json_decref(found);
  json_decref(j);
  return good;
}

/* --- the stream --------------------------------------------------------------------------------------------------- */

static size_t blanks(const srv_buffer *t) {
  size_t n = 0;
  while (n < t->n && srv_is_blank(t->v[n])) n++;
  return n;
}

/* Where tag may begin: at *at whole (true), or in an end of t that could become it. */
static bool find(const srv_buffer *t, const char *tag, size_t *at) {
  const char *whole = t->n ? memmem(t->v, t->n, tag, strlen(tag)) : NULL;
  *at = t->n;
  if (whole) *at = (size_t)(whole - t->v);
  for (size_t n = strlen(tag) - 1; !whole && n > 0; n--)
    if (n <= t->n && memcmp(t->v + t->n - n, tag, n) == 0) {
      *at = t->n - n;
      break;
    }
  return whole;
}

/* Whether text, n bytes, begins with mark: 1; 0; -1: it may become so. */
static int begins_with(const char *text, size_t n, const char *mark) {
  const size_t all = strlen(mark), k = n < all ? n : all;
  if (k && memcmp(text, mark, k) != 0) return 0;
  return n >= all ? 1 : -1;
}

/* Each step consumes something of what is held, or is false: more is needed. */
static bool begin(srv_speech *s, bool last) {
  const size_t from = blanks(&s->held), n = s->held.n - from;
  const char *text = s->held.n ? s->held.v + from : "";
  if (!n && !last) return false;
  int thought = -1, tagged = s->tools ? begins_with(text, n, tags[LIST].open) : 0;
  for (int i = 0; i < THOUGHT_TAGS; i++) {
    const int now = begins_with(text, n, thought_tags[i].open);
    if (now < 0 && !last) return false;
    if (now > 0) thought = i;
  }
  const int channels = srv_harmony_begins(text, n);
  if ((channels < 0 || tagged < 0) && !last) return false;
  s->began = true;
  if (channels > 0) {
    s->place = SRV_HEAD;
  } else if (thought >= 0) {
    drop(&s->held, from + strlen(thought_tags[thought].open));
    s->thinks = true;
    s->thought = (unsigned)thought;
  } else if (s->tools && n && (*text == '{' || (*text == '[' && !tagged))) {
    s->tag = BARE;
  }
  return true;
}

static bool think(srv_speech *s, bool last) {
  const char *shut = thought_tags[s->thought].close;
  size_t at;
  const bool whole = find(&s->held, shut, &at);
  if (last && !whole) at = s->held.n;
  add_text(s, &s->thoughts, s->held.v, at);
  drop(&s->held, whole ? at + strlen(shut) : at);
  s->skips = whole;
  s->thinks = !whole;
  s->began = !whole; /* what comes then may be a call */
  return whole;
}

/* A call of a list that another one follows is said when that begins. False: it is none, or the mark is text of its
 * own. */
static bool early_call(srv_speech *s) {
  size_t at;
  if (s->tag != LIST || !find(&s->held, tags[LIST].open, &at) || !take_calls(s, s->held.v, at, false)) return false;
  drop(&s->held, at + strlen(tags[LIST].open));
  return true;
}

static bool call(srv_speech *s, bool last) {
  if (early_call(s)) return true;
  const char *close = s->tag == BARE ? NULL : tags[s->tag].close;
  size_t at = s->held.n;
  const bool whole = close ? find(&s->held, close, &at) : false;
  if (!whole && !last) return false;
  if (!whole) at = s->held.n;
  const bool good = take_calls(s, s->held.v, at, s->tag == BARE);
  if (!good) {
    if (s->tag != BARE) add_text(s, &s->content, tags[s->tag].open, strlen(tags[s->tag].open));
    add_text(s, &s->content, s->held.v, whole ? at + strlen(close) : at);
  }
  drop(&s->held, whole ? at + strlen(close) : at);
  s->skips = whole && good;
  s->tag = -1;
  return true;
}

static bool say(srv_speech *s, bool last) {
  size_t first = s->held.n, at;
  int tag = -1;
  for (int i = 0; s->tools && i < TAGS; i++) {
    const bool whole = find(&s->held, tags[i].open, &at);
    if (at >= first || (!whole && last)) continue;
    first = at;
    tag = whole ? i : -1;
  }
  /* Blanks before a call are not said; those at the end may stand before one. */
  size_t said = first;
  const bool waits = tag >= 0 || (s->tools && !last);
  while (waits && said && srv_is_blank(s->held.v[said - 1])) said--;
  add_text(s, &s->content, s->held.v, said);
  drop(&s->held, tag >= 0 ? first + strlen(tags[tag].open) : said);
  s->tag = tag;
  return tag >= 0;
}

/* --- channels ----------------------------------------------------------------------------------------------------- */

/* Text that no head follows is said. */
static void begin_body(srv_speech *s, const char *text, size_t n) {
  static const char functions[] = "functions.";
  const size_t k = sizeof functions - 1;
  srv_head h;
  srv_harmony_head(text, n, &h);
  s->place = h.channel == SRV_CHANNEL_ANALYSIS ? SRV_THINKS : SRV_SAYS;
  if (h.n_to > k && memcmp(h.to, functions, k) == 0) {
    h.to += k;
    h.n_to -= k;
  }
  if (!h.n_to || !s->tools) return;
  s->place = SRV_CALLS;
  s->name.n = 0;
  add_text(s, &s->name, h.to, h.n_to);
}

static bool head(srv_speech *s, bool last) {
  size_t at;
  if (find(&s->held, head_end, &at)) {
    begin_body(s, s->held.v, at);
    drop(&s->held, at + sizeof head_end - 1);
    return true;
  }
  if (!last) return false;
  /* A head that was cut short says nothing; what is none does. */
  const bool is_head = strstr(s->held.v, "<|channel|>") || strstr(s->held.v, "<|start|>");
  if (!is_head && blanks(&s->held) < s->held.n) add_text(s, &s->content, s->held.v, s->held.n);
  drop(&s->held, s->held.n);
  return true;
}

/* The call whose arguments are text. */
static void take_message(srv_speech *s, const char *text, size_t n) {
  json_t *j = tni_json_loadb(n ? text : "{}", n ? n : 2, 0, NULL);
  json_t *call =
      json_is_object(j) ? json_pack("{s:s%, s:o}", "name", s->name.v, s->name.n, "arguments", json_incref(j)) : NULL;
  char *one = call ? json_dumps(call, JSON_COMPACT) : NULL;
  if (!one || !take_calls(s, one, strlen(one), false)) add_text(s, &s->content, text, n);
  free(one);
  json_decref(call);
  json_decref(j);
}

static bool body(srv_speech *s, bool last) {
  size_t first = s->held.n, at, mark = 0;
  bool whole = false;
  for (int i = 0; i < BODY_ENDS; i++) {
    const bool found = find(&s->held, body_ends[i], &at);
    if (at >= first || (!found && last)) continue;
    first = at;
    whole = found;
    mark = found ? strlen(body_ends[i]) : 0;
  }
  if (s->place == SRV_CALLS && !whole && !last) return false;
  if (s->place == SRV_CALLS)
    take_message(s, s->held.v ? s->held.v : "", first);
  else
    add_text(s, s->place == SRV_THINKS ? &s->thoughts : &s->content, s->held.v, first);
  drop(&s->held, first + mark);
  if (whole) s->place = SRV_HEAD;
  if (!whole && last) s->place = SRV_SAYS;
  return whole;
}

void srv_speech_push(srv_speech *s, const char *text, size_t n, bool last) {
  add_text(s, &s->held, text, n);
  if (s->no_memory) return;
  bool more = true;
  while (more && !s->no_memory && (s->held.n || !s->began || (last && s->place == SRV_CALLS))) {
    if (s->skips && s->held.n) {
      drop(&s->held, blanks(&s->held));
      s->skips = s->held.n == 0; /* more of them may come */
    } else if (!s->began)
      more = begin(s, last);
    else if (s->place == SRV_HEAD)
      more = head(s, last);
    else if (s->place != SRV_NO_CHANNELS)
      more = body(s, last);
    else if (s->thinks)
      more = think(s, last);
    else if (s->tag >= 0)
      more = call(s, last);
    else
      more = say(s, last);
  }
}
