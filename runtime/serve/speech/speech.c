/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/serve/speech/speech.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "runtime/base/base.h"
#include "runtime/serve/speech/callxml.h"
#include "runtime/serve/speech/harmony.h"

/* How families of models mark calls. close NULL: to the end of the text. */
static const struct {
  const char *open, *close;
} tags[] = {{"<tool_call>", "</tool_call>"},
            {"<|tool_call|>", "<|/tool_call|>"},
            {SRV_CALLXML_OPEN, "</function>"},
            {"[TOOL_CALLS]", NULL},
            {"<|python_tag|>", NULL}};
enum { TAGS = sizeof tags / sizeof *tags, BARE = TAGS };

static const char head_end[] = "<|message|>";
static const char *const body_ends[] = {"<|start|>", "<|end|>", "<|return|>", "<|call|>"};
enum { BODY_ENDS = sizeof body_ends / sizeof *body_ends };

const char *const srv_speech_marks[] = {
    "<|start|>",   "<|channel|>",  "<|constrain|>", "<|message|>",    "<|end|>",      "<|return|>",     "<|call|>",
    "<tool_call>", "</tool_call>", "<|tool_call|>", "<|/tool_call|>", "[TOOL_CALLS]", "<|python_tag|>", "<think>", "</think>"};
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

static bool is_tool(const srv_speech *s, const char *name) {
  const json_t *tool;
  size_t i;
  json_array_foreach(s->tools, i, tool) {
    const char *n = json_string_value(json_object_get(json_object_get(tool, "function"), "name"));
    if (n && strcmp(n, name) == 0) return true;
  }
  return false;
}

/* One call as the model wrote it, as OpenAI's API has it; NULL: it is none. */
static json_t *call_json(const srv_speech *s, const json_t *j, bool known) {
  if (json_is_object(json_object_get(j, "function"))) j = json_object_get(j, "function");
  const char *name = json_string_value(json_object_get(j, "name"));
  const json_t *arguments = json_object_get(j, "arguments");
  uint64_t id = 0;
  char text[32];
  if (!arguments) arguments = json_object_get(j, "parameters");
  if (!name || (known && (!is_tool(s, name) || !arguments)) || (arguments && !json_is_object(arguments) && !json_is_string(arguments)))
    return NULL;
  if (getrandom(&id, sizeof id, 0) < 0) id = (uint64_t)tni_now_ns();
  snprintf(text, sizeof text, "call_%016llx", (unsigned long long)id);
  char *written = json_is_object(arguments) ? json_dumps(arguments, 0) : NULL;
  json_t *call = json_pack("{s:s, s:s, s:{s:s, s:s}}", "id", text, "type", "function", "function", "name", name, "arguments",
                           written ? written : arguments ? json_string_value(arguments) : "{}");
  free(written);
  return call;
}

/* False: the text is no call. known: only of tools that there are. */
static bool take_calls(srv_speech *s, const char *text, size_t n, bool known) {
  json_t *j = json_loadb(text, n, 0, NULL), *found = json_array();
  if (!j && !known) j = srv_callxml_read(s->tools, text, n);
  const size_t count = json_is_array(j) ? json_array_size(j) : 1;
  bool good = j && count > 0;
  for (size_t i = 0; good && i < count; i++) {
    json_t *call = call_json(s, json_is_array(j) ? json_array_get(j, i) : j, known);
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
  while (n < t->n && strchr(" \t\r\n", t->v[n])) n++;
  return n;
}

/* Where tag may begin: at *at whole (true), or in an end of t that could become it. */
static bool find(const srv_buffer *t, const char *tag, size_t *at) {
  const char *whole = t->n ? strstr(t->v, tag) : NULL;
  *at = t->n;
  if (whole) *at = (size_t)(whole - t->v);
  for (size_t n = strlen(tag) - 1; !whole && n > 0; n--)
    if (n <= t->n && memcmp(t->v + t->n - n, tag, n) == 0) {
      *at = t->n - n;
      break;
    }
  return whole;
}

/* Each step consumes something of what is held, or is false: more is needed. */
static bool begin(srv_speech *s, bool last) {
  static const char open[] = "<think>", list[] = "[TOOL_CALLS]";
  const size_t from = blanks(&s->held), n = s->held.n - from;
  const char *text = s->held.n ? s->held.v + from : "";
  if (!n && !last) return false;
  if (n < sizeof open - 1 && memcmp(text, open, n) == 0 && !last) return false;
  const int channels = srv_harmony_begins(text, n);
  if (channels < 0 && !last) return false;
  const bool tagged = s->tools && memcmp(text, list, n < sizeof list - 1 ? n : sizeof list - 1) == 0;
  if (tagged && n < sizeof list - 1 && !last) return false;
  s->began = true;
  if (channels > 0) {
    s->place = SRV_HEAD;
  } else if (n >= sizeof open - 1 && memcmp(text, open, sizeof open - 1) == 0) {
    drop(&s->held, from + sizeof open - 1);
    s->thinks = true;
  } else if (s->tools && n && (*text == '{' || (*text == '[' && !tagged))) {
    s->tag = BARE;
  }
  return true;
}

static bool think(srv_speech *s, bool last) {
  static const char shut[] = "</think>";
  size_t at;
  const bool whole = find(&s->held, shut, &at);
  if (last && !whole) at = s->held.n;
  add_text(s, &s->thoughts, s->held.v, at);
  drop(&s->held, whole ? at + sizeof shut - 1 : at);
  s->skips = whole;
  s->thinks = !whole;
  s->began = !whole; /* what comes then may be a call */
  return whole;
}

static bool call(srv_speech *s, bool last) {
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
  while (waits && said && strchr(" \t\r\n", s->held.v[said - 1])) said--;
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
  json_t *call = json_is_object(j) ? json_pack("{s:s%, s:o}", "name", s->name.v, s->name.n, "arguments", json_incref(j)) : NULL;
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
