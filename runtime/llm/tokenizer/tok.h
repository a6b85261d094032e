/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside of a tokenizer: the components as read from the file, and the working memory of one encode call. Components
 * that contain others (Sequence) are flattened into arrays of primitive steps when they are read, nesting at most
 * TNI_TOK_DEPTH deep. Everything in tni_tokenizer is immutable after load; a tni_work belongs to one call.
 */
#ifndef TENON_LLM_TOKENIZER_TOK_H
#define TENON_LLM_TOKENIZER_TOK_H

#include "runtime/base/base.h"
#include "runtime/llm/tokenizer/charsmap.h"
#include "runtime/llm/tokenizer/pattern.h"
#include "runtime/llm/tokenizer/tokenizer.h"
#include "runtime/llm/tokenizer/trie.h"

enum {
  TNI_TOK_DEPTH = 16,          /* nesting of Sequence components */
  TNI_TOK_STEPS = 64,          /* steps of one kind after flattening */
  TNI_TOK_STRING = 4096,       /* bytes of a token, prefix or replacement */
  TNI_TOK_IDS = 1 << 22,       /* ids are below this */
  TNI_TOK_TEXT_BYTES = 1 << 26 /* text of one encode call */
};

/* --- working memory ---------------------------------------------------------------------------------------------- */

/* A run of text still to be tokenized (id -1), or a token found in the text. */
typedef struct tni_tok_piece {
  size_t off, n;
  size_t zero; /* leading bytes from the input's first character, see str.h */
  int32_t id;
} tni_tok_piece;
typedef struct tni_tok_pieces {
  tni_tok_piece *v;
  size_t n, cap;
  bool failed;
} tni_tok_pieces;

/* One piece of a split before its behavior is applied. */
typedef struct tni_seg {
  size_t b, e;
  bool match;
} tni_seg;
typedef struct tni_segs {
  tni_seg *v;
  size_t n, cap;
  bool failed;
} tni_segs;

typedef struct tni_sym tni_sym;
typedef struct tni_merge_at tni_merge_at;
typedef struct tni_best tni_best;

typedef struct tni_work {
  tni_str text, tmp, norm, norm2; /* pieces are ranges of text */
  tni_tok_pieces pieces, next;
  tni_segs segs;
  tni_match_memory match;
  tni_ids ids;
  size_t ids_cap;
  bool ids_failed;
  tni_sym *syms; /* bpe.c */
  size_t syms_cap;
  tni_merge_at *heap;
  size_t heap_cap;
  tni_best *best; /* unigram.c */
  size_t best_cap;
} tni_work;

void tni_work_finish(tni_work *w);
void tni_pieces_add(tni_tok_pieces *p, tni_tok_piece x);
void tni_segs_add(tni_segs *s, size_t b, size_t e, bool match);
void tni_work_id(tni_work *w, int32_t id);
/* Grows *v to at least n elements of size bytes; false without memory. */
bool tni_grow(void **v, size_t *cap, size_t n, size_t size);

/* --- components -------------------------------------------------------------------------------------------------- */

typedef enum tni_norm_kind {
  TNI_NORM_NFC,
  TNI_NORM_NFD,
  TNI_NORM_NFKC,
  TNI_NORM_NFKD,
  TNI_NORM_LOWERCASE,
  TNI_NORM_STRIP,
  TNI_NORM_STRIP_ACCENTS,
  TNI_NORM_REPLACE,
  TNI_NORM_PREPEND,
  TNI_NORM_BERT,
  TNI_NORM_NMT,
  TNI_NORM_PRECOMPILED,
  TNI_NORM_BYTES
} tni_norm_kind;
typedef struct tni_norm {
  tni_norm_kind kind;
  tni_pattern pattern;
  tni_view text;                                 /* Replace: content, Prepend */
  bool left, right;                              /* Strip */
  bool clean, chinese, strip_accents, lowercase; /* Bert */
  tni_charsmap map;                              /* Precompiled */
} tni_norm;

typedef enum tni_pre_kind {
  TNI_PRE_SPLIT,     /* pattern */
  TNI_PRE_SPLIT_IF,  /* pred: each character that fulfils it is a match */
  TNI_PRE_WORDS,     /* \w+|[^\w\s]+ */
  TNI_PRE_LENGTH,    /* chunks of length characters */
  TNI_PRE_SPACE,     /* text is put before a piece that does not start with it */
  TNI_PRE_METASPACE, /* ' ' -> text, and text before a piece as scheme says */
  TNI_PRE_BYTES      /* bytes -> their printable characters */
} tni_pre_kind;
typedef enum tni_behavior {
  TNI_SPLIT_REMOVED,
  TNI_SPLIT_ISOLATED,
  TNI_SPLIT_MERGED_WITH_PREVIOUS,
  TNI_SPLIT_MERGED_WITH_NEXT,
  TNI_SPLIT_CONTIGUOUS
} tni_behavior;
typedef enum tni_scheme { TNI_SCHEME_ALWAYS, TNI_SCHEME_FIRST, TNI_SCHEME_NEVER } tni_scheme;
typedef struct tni_pre {
  tni_pre_kind kind;
  tni_pattern pattern;
  tni_behavior behavior;
  bool invert;
  bool (*pred)(uint32_t cp);
  size_t length;
  tni_view text;
  tni_scheme scheme;
} tni_pre;

/* Ids around the text; the text is there once. */
typedef struct tni_post {
  int32_t *v; /* ids; TNI_POST_SEQUENCE stands for the text */
  size_t n;
} tni_post;
enum { TNI_POST_SEQUENCE = -1 };

typedef enum tni_dec_kind {
  TNI_DEC_BYTES,
  TNI_DEC_METASPACE,
  TNI_DEC_BYTE_FALLBACK,
  TNI_DEC_FUSE,
  TNI_DEC_STRIP,
  TNI_DEC_REPLACE,
  TNI_DEC_WORDPIECE,
  TNI_DEC_BPE,
  TNI_DEC_CTC,
  TNI_DEC_JOIN /* no decoder in the file: tokens joined by spaces */
} tni_dec_kind;
typedef struct tni_dec {
  tni_dec_kind kind;
  tni_pattern pattern;  /* Replace */
  tni_view text, text2; /* replacement; content; prefix; suffix; pad token and word delimiter */
  size_t start, stop;   /* Strip */
  bool cleanup;         /* WordPiece, CTC */
  bool keep_first;      /* Metaspace: prepend_scheme never */
  bool whole;           /* comes after a Fuse and cannot work on parts of a token */
  bool fused;           /* comes after a Fuse or ByteLevel: sees one token in fragments */
} tni_dec;

typedef struct tni_added {
  tni_view content; /* as the file has it */
  tni_view pattern; /* as searched: normalized if `normalized` */
  int32_t id;
  bool single_word, lstrip, rstrip, normalized, special;
} tni_added;
/* Tokens searched together: sorted by pattern bytes, so that a longest match is a narrowing range. */
typedef struct tni_added_set {
  tni_added *v;
  size_t n;
  bool first[256]; /* a pattern starts with this byte */
} tni_added_set;

/* BPE merges: open addressing, pair -> rank and merged id. */
typedef struct tni_merge {
  uint64_t pair; /* left << 32 | right; UINT64_MAX: free */
  uint32_t rank;
  int32_t id;
} tni_merge;

typedef enum tni_model_kind {
  TNI_MODEL_BPE,
  TNI_MODEL_WORDPIECE,
  TNI_MODEL_WORDLEVEL,
  TNI_MODEL_UNIGRAM
} tni_model_kind;
/* MISSING: the file names an unknown token that its vocabulary lacks; an error only when it is needed. */
enum { TNI_UNK_NONE = -1, TNI_UNK_MISSING = -2 };
typedef struct tni_tok_model {
  tni_model_kind kind;
  tni_map *vocab;
  int32_t unk; /* TNI_UNK_NONE, TNI_UNK_MISSING */
  tni_view prefix, suffix;
  size_t max_chars; /* WordPiece */
  bool fuse_unk, byte_fallback, ignore_merges;
  int32_t byte_ids[256]; /* <0x00> ... <0xFF>, -1: none */
  tni_merge *merges;
  size_t merges_mask;
  tni_trie trie; /* Unigram */
  double *scores, unk_score;
} tni_tok_model;

typedef struct tni_token {
  const char *v;  /* terminated; NULL: no such id */
  tni_view shown; /* what decoding gives: of a normalized added token its normalized text */
  uint32_t n;
  bool special;
  bool skipped; /* left out with skip_special: as in the reference, what is shown is some special token's content */
} tni_token;

struct tni_tokenizer {
  tni_arena *arena;
  tni_map *added_ids; /* contents of added tokens */
  tni_token *tokens;  /* by id */
  size_t n_tokens;
  tni_norm *norms;
  tni_pre *pres;
  tni_post post; /* n 0: none */
  tni_dec *decs;
  size_t n_norms, n_pres, n_posts, n_decs;
  tni_tok_model model;
  tni_added *added;
  size_t n_added;
  tni_added_set raw, normalized;
  tni_added_set special; /* the special ones of `normalized` by their content, for marked texts */
  bool truncate, truncate_left; /* truncate, max_length: as tni_tokenizer_limit says */
  size_t max_length;
  bool has_pad; /* the file pads batches, with pad_id */
  int32_t pad_id;
};

/* What readers need: where to allocate and report. */
typedef struct tni_reader {
  tni_tokenizer *t;
  tn_error *err;
} tni_reader;

/* Copies s into the tokenizer's arena, terminated; at most TNI_TOK_STRING bytes. */
TN_MUST_CHECK tn_status tni_tok_string(tni_reader *r, const tni_at *a, tni_view *out);
/* a.type, or UNSUPPORTED/INVALID. */
TN_MUST_CHECK tn_status tni_tok_type(tni_reader *r, const tni_at *a, tni_view *out);
static inline bool tni_view_is(tni_view v, const char *s) {
  return v.n == __builtin_strlen(s) && __builtin_memcmp(v.v, s, v.n) == 0;
}
/* Calls one(r, item, depth + 1) for each item of the array a.key. */
typedef tn_status (*tni_tok_read_fn)(tni_reader *r, const tni_at *a, unsigned depth);
TN_MUST_CHECK tn_status tni_tok_sequence(tni_reader *r, const tni_at *a, const char *key, unsigned depth,
                                         tni_tok_read_fn one);

TN_MUST_CHECK tn_status tni_norm_read(tni_reader *r, const tni_at *a, unsigned depth);
TN_MUST_CHECK tn_status tni_pre_read(tni_reader *r, const tni_at *a, unsigned depth);
TN_MUST_CHECK tn_status tni_post_read(tni_reader *r, const tni_at *a);
TN_MUST_CHECK tn_status tni_dec_read(tni_reader *r, const tni_at *a, unsigned depth);
TN_MUST_CHECK tn_status tni_model_read(tni_reader *r, const tni_at *a);
TN_MUST_CHECK tn_status tni_bpe_read(tni_reader *r, const tni_at *a);
TN_MUST_CHECK tn_status tni_unigram_read(tni_reader *r, const tni_at *a);
void tni_byte_ids(tni_tok_model *m); /* of the vocabulary's byte tokens */
/* Reads the list only: ids and flags. */
TN_MUST_CHECK tn_status tni_added_read(tni_reader *r, const tni_at *a);
/* Builds the sets; the normalizer must be there. */
TN_MUST_CHECK tn_status tni_added_build(tni_reader *r);
TN_MUST_CHECK tn_status tni_limits_read(tni_reader *r, const tni_at *truncation, const tni_at *padding);
void tni_decs_flatten(tni_tokenizer *t); /* sets fused and whole */
/* The bytes that a byte-level token's characters stand for; with a character outside the table it stands for its own. */
void tni_put_token_bytes(tni_str *out, const char *s, size_t n);
/* The byte of "<0xNN>"; -1: s is none. */
int tni_byte_token(const char *s, size_t n);

/* Id of a token of the model's vocabulary, -1: none. */
int32_t tni_vocab_id(const tni_tok_model *m, const char *s, size_t n);

/* --- encoding ---------------------------------------------------------------------------------------------------- */

/* w->norm in place. */
TN_MUST_CHECK tn_status tni_normalize(const tni_tokenizer *t, tni_work *w, tn_error *err);
/* Splits s into text and added tokens; offsets of the pieces are base + offset in s. */
/* mine: as in tni_tokenizer_encode_marked, of s; NULL: all. */
void tni_added_split(const tni_added_set *set, const char *s, const uint8_t *mine, size_t n, size_t zero, size_t base,
                     tni_tok_pieces *out);
/* All pre-tokenizers over w->pieces. */
TN_MUST_CHECK tn_status tni_pre_tokenize(const tni_tokenizer *t, tni_work *w, tn_error *err);
/* Ids of one piece, appended to w. */
TN_MUST_CHECK tn_status tni_model_encode(const tni_tokenizer *t, tni_work *w, const char *s, size_t n, tn_error *err);
TN_MUST_CHECK tn_status tni_bpe_encode(const tni_tok_model *m, tni_work *w, const char *s, size_t n, tn_error *err);
TN_MUST_CHECK tn_status tni_unigram_encode(const tni_tok_model *m, tni_work *w, const char *s, size_t n, tn_error *err);
/* Truncation to the limit that was set, and templates, over w->ids. */
TN_MUST_CHECK tn_status tni_post_process(const tni_tokenizer *t, tni_work *w, tn_error *err);

#endif
