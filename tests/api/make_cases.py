#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads the application's headers and writes a C file that calls each function with each argument wrong.

  make_cases.py OUT.c HEADER...

Each function of TN_API gets: one call as it should be, one without a tn_error, and one for each way in which an argument
can be wrong: NULL, an empty text, a size of 0 or 3 in the header of a struct, flags that nobody knows, a number that no
enum has, a count without its list, a negative number, NaN. What may be so is named below, with the reason. A function
that is new in a header is tested from the day on which it is there; an argument of a new type stops this script.
"""
import re, sys

# What x (struct fixture, fixture.h) gives where an argument is as it should be: by function and name, by name, by type.
GOOD = {
    ("tn_tensor_load", "path"): "x->tensor_path", ("tn_value_load", "path"): "x->tensor_path",
    ("tn_value_load", "as"): "TN_DT_F32", ("tn_tensor_save", "path"): "x->out_path", ("tn_image_load", "path"): "x->image_path",
    ("tn_lm_load", "path"): "x->lm_path", ("tn_lm_longest", "path"): "x->lm_path",
    ("tn_embedder_load", "path"): "x->embed_path", ("tn_classifier_load", "path"): "x->classify_path",
    ("tn_model_dump", "path"): "x->out_path", ("tn_model_calibration_save", "path"): "x->out_path",
    ("tn_model_calibration_keep", "path"): "x->out_path", ("tn_model_calibration_resume", "path"): "x->out_path",
    ("tn_model_dump", "format"): '"text"', ("tn_model_find", "file"): '"model.onnx"', ("tn_model_find", "path"): "x->lm_path",
    ("tn_model_format_report", "format"): '"w4g"', ("tn_model_format_report", "n"): "1",
    ("tn_model_format_report", "params"): "x->format_params",
    ("tn_session_capture_case", "folder"): "x->out_path", ("tn_bundle_check", "folder"): "x->bundle_path",
    ("tn_session_run", "in"): "x->run_in", ("tn_session_run", "n_in"): "x->n_run_in", ("tn_session_run", "out"): "x->run_out",
    ("tn_session_run", "n_out"): "x->n_run_out", ("tn_session_step", "in"): "x->step_in", ("tn_session_step", "out"): "x->step_out",
    ("tn_session_step", "rows"): "1", ("tn_session_step", "s"): "x->keeping", ("tn_session_truncate", "s"): "x->keeping",
    ("tn_session_share", "dst"): "x->keeping", ("tn_session_share", "src"): "x->keeping2",
    ("tn_session_max_step", "s"): "x->keeping", ("tn_session_length", "s"): "x->keeping",
    ("tn_session_save", "s"): "x->keeping", ("tn_session_load", "s"): "x->keeping", ("tn_session_save", "note"): "x->ids",
    ("tn_session_save", "n_note"): "sizeof x->ids", ("tn_session_save", "path"): "x->out_path",
    ("tn_session_load", "path"): "x->state_path",
    ("tn_session_step_slots", "s"): "x->slotted", ("tn_session_step_slots", "in"): "x->step_in",
    ("tn_session_step_slots", "out"): "x->step_out", ("tn_session_step_slots", "rows"): "1",
    ("tn_session_step_slots", "first"): "1", ("tn_session_step_slots", "count"): "1", ("tn_session_slot_length", "s"): "x->slotted",
    ("tn_session_slot_truncate", "s"): "x->slotted", ("tn_session_slot_truncate", "n"): "0",
    ("tn_session_slot_copy", "s"): "x->slotted", ("tn_session_slot_copy", "n"): "0", ("tn_session_slot_copy", "from"): "1",
    ("*", "slot"): "0", ("*", "to"): "0",
    ("tn_session_truncate", "n"): "0", ("tn_session_share", "n"): "0", ("tn_model_report", "what"): "TN_REPORT_CHECK",
    ("tn_chat_score", "n"): "3", ("tn_generate_ids", "n"): "3", ("tn_lm_decode", "n"): "3",
    ("tn_generate", "n"): "4", ("tn_lm_encode", "n"): "4", ("tn_generate", "prompt"): '"Once"', ("tn_lm_encode", "text"): '"Once"',
    ("tn_embed", "count"): "1", ("tn_embed", "texts"): "x->texts", ("tn_embed", "len"): "x->lengths",
    ("tn_embedder_count", "count"): "1", ("tn_embedder_count", "texts"): "x->texts", ("tn_embedder_count", "len"): "x->lengths",
    ("tn_embedder_count", "tokens"): "&x->out.n2",
    ("tn_lm_encode", "ids"): "&x->out.ids", ("tn_lm_is_eos", "id"): "1", ("tn_classifier_label", "i"): "0", ("tn_model_input", "i"): "0", ("tn_model_output", "i"): "0",
    ("tn_bundle_make", "runtime"): "&x->runtime_opts",
    ("tn_chat_rewind", "n"): "3", ("tn_chat_fork", "n"): "SIZE_MAX", ("tn_chat_save", "path"): "x->out_path",
    ("tn_chat_load", "path"): "x->chat_path", ("tn_lm_apply", "n_ids"): "&x->out.n2", ("tn_lm_apply", "ids"): "&x->out.ids",
    ("tn_lm_marks", "n"): "1", ("tn_chat_draft", "n"): "2", ("tn_batch_draft", "n"): "2", ("tn_batch_start", "n"): "3", ("tn_batch_start", "slot"): "&x->out.u32", ("tn_grammar_create", "kind"): "TN_GRAMMAR_JSON_SCHEMA",
    ("tn_grammar_create", "text"): '"{}"', ("tn_grammar_create", "n"): "2", ("tn_sampler_create", "n"): "3",
    ("tn_sampler_pick", "vocab"): "x->vocab", ("tn_sampler_pick", "left"): "UINT32_MAX", ("tn_sampler_pick", "logits"): "x->logits",
}
BY_NAME = {"path": "x->model_path", "phase": "TN_PHASE_ANY", "ids": "x->ids", "fn": "NULL", "user": "NULL", "flags": "0",
           "add_special": "0", "skip_special": "0", "st": "TN_OK", "dt": "TN_DT_F32"}
BY_TYPE = {
    "tn_runtime *": "x->rt", "const tn_runtime *": "x->rt", "tn_model *": "x->model", "const tn_model *": "x->model",
    "tn_session *": "x->session", "const tn_session *": "x->session", "tn_lm *": "x->lm", "const tn_lm *": "x->lm",
    "tn_chat *": "x->chat", "const tn_chat *": "x->chat", "const float *": "x->logits", "tn_embedder *": "x->embedder", "const tn_embedder *": "x->embedder",
    "tn_classifier *": "x->classifier", "const tn_classifier *": "x->classifier", "const tn_image *": "&x->image",
    "const tn_tensor *": "&x->tensor", "const tn_calibration_text *": "&x->calibration_text",
    "const tn_runtime_opts *": "&x->runtime_opts", "const tn_model_opts *": "&x->model_opts",
    "const tn_lm_opts *": "&x->lm_opts", "const tn_keep_opts *": "&x->keep_opts", "const tn_embed_opts *": "&x->embed_opts",
    "const tn_classify_opts *": "&x->classify_opts", "const tn_bundle_opts *": "&x->bundle_opts", "const tn_quantize_opts *": "&x->quantize_opts",
    "const tn_gen_params *": "&x->gen", "tn_gen_params *": "&x->gen", "tn_gen_result *": "&x->result",
    "tn_error *": "&x->err", "const tn_error *": "&x->err", "tn_long_error *": "&x->long_err", "void *": "NULL",
    "tn_runtime **": "&x->out.rt", "tn_model **": "&x->out.model", "tn_session **": "&x->out.session", "tn_lm **": "&x->out.lm",
    "tn_chat **": "&x->out.chat", "tn_embedder **": "&x->out.embedder", "tn_classifier **": "&x->out.classifier",
    "tn_tensor **": "&x->out.tensor", "tn_image **": "&x->out.image", "char **": "&x->out.text", "int32_t **": "&x->out.ids",
    "float **": "&x->out.floats", "const float **": "&x->out.row", "size_t *": "&x->out.n", "int64_t *": "&x->out.i64",
    "const char *const *": "x->texts", "const tn_messages *": "&x->messages", "const tn_batch_opts *": "&x->batch_opts", "tn_batch_prefixes *": "&x->prefixes",
    "tn_batch_guesses *": "&x->guesses",
    "tn_batch *": "x->batch", "const tn_batch *": "x->batch", "tn_batch **": "&x->out.batch", "tn_grammar *": "x->grammar",
    "tn_grammar **": "&x->out.grammar", "tn_sampler *": "x->sampler", "const tn_sampler *": "x->sampler",
    "tn_sampler **": "&x->out.sampler", "uint32_t *": "&x->out.u32", "int32_t *": "&x->out.i32",
    "const char **": "&x->out.name", "void **": "&x->out.bytes", "uint64_t *": "&x->out.n_bytes",
}
# The call as it should be need not succeed on the fixture, for this reason.
NOT_OK = {
    "tn_model_calibration_next": "the model does not record", "tn_model_calibration_save": "the model does not record",
    "tn_model_calibration_keep": "the model does not record", "tn_model_calibration_resume": "the model does not record",
    "tn_session_capture_report": "no TN_MODEL_CAPTURE", "tn_session_capture_case": "no TN_MODEL_CAPTURE",
    "tn_quantize": "takes minutes: its arguments are looked at before", "tn_bundle_make": "takes minutes: its arguments are looked at before", "tn_bundle_check": "there is no bundle",
    "tn_model_format_report": "no plugin of this profile states a format", "tn_runtime_bind_thread": "the system may refuse",
}
# Wrong elsewhere, right here: (function, argument[.field], way): why.
ALLOWED = {
    ("tn_chat_draft", "draft", "NULL"): "no more guesses", ("tn_batch_draft", "draft", "NULL"): "no more guesses",
    ("*", "p.frequency_penalty", "-1"): "repeats are wanted", ("*", "p.presence_penalty", "-1"): "repeats are wanted",
    ("*", "err", "NULL"): "nobody asks why",
    ("tn_runtime_create", "o", "NULL"): "all defaults", ("tn_model_load", "o", "NULL"): "all defaults",
    ("tn_lm_load", "o", "NULL"): "all defaults", ("tn_embedder_load", "o", "NULL"): "all defaults",
    ("tn_classifier_load", "o", "NULL"): "all defaults", ("tn_session_keep", "o", "NULL"): "all defaults",
    ("tn_model_find", "file", "NULL"): "the one that is meant", ("tn_generate", "p", "NULL"): "defaults",
    ("tn_generate_ids", "p", "NULL"): "defaults", ("tn_generate", "res", "NULL"): "not wanted",
    ("tn_generate_ids", "res", "NULL"): "not wanted", ("tn_bundle_check", "json", "NULL"): "not wanted",
    ("tn_bundle_make", "runtime", "NULL"): "all defaults", ("tn_lm_encode", "n", "NULL with a count"): "tested as text",
    ("tn_chat_score", "logits", "NULL"): "not wanted", ("tn_chat_score", "rows", "NULL"): "not wanted",
    ("tn_chat_score", "vocab", "NULL"): "not wanted",
    ("tn_lm_apply", "text", "NULL"): "not wanted", ("tn_lm_apply", "n_text", "NULL"): "not wanted",
    ("tn_lm_apply", "ids", "NULL"): "not wanted", ("tn_lm_apply", "n_ids", "NULL"): "not wanted",
    ("tn_batch_guess_counts", "slot", "far"): "TN_BATCH_ALL", ("tn_lm_apply", "m.now", "-5"): "before 1970", ("tn_batch_create", "o", "NULL"): "all defaults",
    ("tn_batch_start", "p", "NULL"): "defaults", ("tn_batch_result", "cached", "NULL"): "not wanted",
    ("tn_sampler_create", "p", "NULL"): "defaults", ("tn_sampler_create", "p.stop", "NULL with a count"): "samplers know no stops",
}
TEXTS_MAY_BE_EMPTY = {"prompt", "text", "texts", "label", "calibration"}


def strip(text):
    return re.sub(r"/\*.*?\*/", " ", text, flags=re.S)


def split_args(text):
    out, depth, start = [], 0, 0
    for i, c in enumerate(text):
        depth += (c == "(") - (c == ")")
        if c == "," and depth == 0:
            out.append(text[start:i])
            start = i + 1
    return [a.strip() for a in out + [text[start:]] if a.strip() and a.strip() != "void"]


def parse_arg(text):
    """(type, name)."""
    text = " ".join(text.split())
    m = re.match(r"(.*)\(\*(\w+)\)(\(.*\))$", text)
    if m:
        return "function", m[2]
    m = re.match(r"(.*?)(\w+)$", text)
    kind = " ".join(m[1].replace("*", " * ").split()).replace("* *", "**").replace("* const *", "*const *")
    return kind, m[2]


def parse(headers):
    text = "\n".join(strip(open(h).read()) for h in headers)
    functions = []
    for m in re.finditer(r"^TN_API ((?:TN_MUST_CHECK )?)([\w \*]+?)(tn_\w+)\(((?:[^()]|\([^()]*\))*)\);", text, re.M):
        functions.append((m[3], " ".join(m[2].split()), [parse_arg(a) for a in split_args(m[4])]))
    structs = {}
    for m in re.finditer(r"typedef struct (tn_\w+) \{(.*?)\} \1;", text, re.S):
        fields = []
        for line in m[2].split(";"):
            line = " ".join(line.split())
            if not line or "(*" in line or "[" in line:
                continue
            first, *more = line.split(",")
            kind, name = parse_arg(first)
            fields += [(kind, name)] + [(kind, n.strip(" *")) for n in more]
        structs[m[1]] = fields
    return functions, structs


def struct_ways(kind, fields):
    """(field, way, statement) for each way in which a struct can be wrong."""
    names = {n for _, n in fields}
    ways = []
    for k, n in fields:
        if n == "h":
            ways += [(n, "size 0", "o.h.size = 0"), (n, "size 3", "o.h.size = 3")]
        elif n in ("flags", "model_flags"):
            ways.append((n, "unknown bit", f"o.{n} |= 1u << 30"))
        elif re.match(r"reserved\d*$", n):
            ways.append((n, "not 0", f"o.{n} = 7"))
        elif n in ("pool", "normalize", "dtype", "channels", "log_level"):
            ways.append((n, "77", f"o.{n} = 77"))
        elif k == "int64_t" and n not in ("prefill_ns", "decode_ns", "created"):
            ways.append((n, "-5", f"o.{n} = -5"))
        elif k == "float":
            ways += [(n, "NaN", f"o.{n} = NAN"), (n, "-1", f"o.{n} = -1")]
        elif n == "rank":
            ways.append((n, "99", f"o.{n} = 99"))
        elif n.startswith("n_"):
            of = {"n_bytes": "bytes", "n_dims": "dim_names"}.get(n, n[2:])
            if of not in names:
                sys.exit(f"{kind}.{n} counts nothing that is known")
            ways.append((of, "NULL with a count", f"o.{of} = NULL; o.{n} = 3"))
            if n == "n_dims":
                ways.append(("dim_values", "NULL with a count", "o.dim_values = NULL; o.n_dims = 1"))
    if kind == "tn_tensor":
        ways.append(("data", "NULL with bytes", "o.data = NULL"))
    if kind == "tn_image":
        ways += [("pixels", "NULL", "o.pixels = NULL"), ("width", "0", "o.width = 0"), ("width", "2^31", "o.width = 1u << 31")]
    return ways


def wrong(function, kind, name, structs, args):
    """(way, before, expression) of one argument. before: a statement."""
    base = kind.replace("const ", "").rstrip(" *")
    if kind == "function" or name == "user" or kind == "tn_token_fn":
        return
    if "*" in kind:
        yield "NULL", "", "NULL"
    if kind == "const char *" and name not in TEXTS_MAY_BE_EMPTY:
        yield "empty", "", '""'
        yield "nowhere", "", '"/nowhere/at/all"'
    if base in structs and kind.count("*") == 1 and base not in ("tn_error", "tn_long_error"):
        for field, way, code in struct_ways(base, structs[base]):
            if not kind.startswith("const ") and (field != "h" or kind == "tn_gen_params *"):
                continue  # written by the function, which looks at the size only
            good = good_value(function, kind, name)
            yield f".{field} {way}", f"{base} o = *({good}); {code};", "&o"
    if kind == "uint32_t" and name in ("phase", "what", "kind"):
        yield "77", "", "77"
    if kind == "uint32_t" and name == "flags":
        yield "unknown bit", "", "1u << 30"
    if kind == "uint32_t" and name == "rows":
        yield "77", "", "77"
    if kind == "int64_t":
        yield "-5", "", "-5"
        yield "2^62", "", "INT64_C(1) << 62"
    if kind in ("uint32_t", "size_t") and name in ("i", "as", "slot", "first", "to", "from"):
        yield "far", "", "0x7fffffff"
    if kind in ("uint32_t", "int32_t") and name in ("dt", "st", "id"):
        yield "far", "", "0x7fffffff"


def good_value(function, kind, name):
    if (function, name) in GOOD:
        return GOOD[function, name]
    if ("*", name) in GOOD:
        return GOOD["*", name]
    if name in BY_NAME:
        return BY_NAME[name]
    if kind in ("function", "tn_token_fn"):
        return "NULL"
    if kind in BY_TYPE:
        return BY_TYPE[kind]
    sys.exit(f"make_cases.py: {function}: what is a good '{kind} {name}'?")


def allowed(function, what, way):
    return (function, what, way) in ALLOWED or ("*", what, way) in ALLOWED


def main():
    functions, structs = parse(sys.argv[2:])
    out, rows = [], []

    def add(function, result, args, label, before, values, expect):
        n = len(rows)
        call = f"{function}({', '.join(values)})"
        body = f"return {call};" if result == "tn_status" else f"(void){call};\n  return NO_STATUS;"
        if result == "void":
            body = f"{call};\n  return NO_STATUS;"
        out.append(f"static tn_status case_{n}(fixture *x) {{\n  (void)x;\n  {before}\n  {body}\n}}\n")
        rows.append(f'  {{"{function}", "{label}", case_{n}, {expect}}},')

    for function, result, args in functions:
        good = [good_value(function, k, n) for k, n in args]
        status = result == "tn_status"
        add(function, result, args, "as it should be", "", good, "ANY" if function in NOT_OK or not status else "GOOD")
        for i, (kind, name) in enumerate(args):
            for way, before, value in wrong(function, kind, name, structs, args) or ():
                what, w = (name, way) if way[0] != "." else (name + way.split()[0], way.split(" ", 1)[1])
                expect = "ANY" if allowed(function, what, w) or not status or name == "err" else "BAD"
                values = good[:i] + [value] + good[i + 1:]
                add(function, result, args, f"{what} {w}", before, values, expect)
    with open(sys.argv[1], "w") as f:
        f.write("/* Written by make_cases.py. */\n#include \"tests/api/fixture.h\"\n\n" + "\n".join(out) +
                "\nconst api_case api_cases[] = {\n" + "\n".join(rows) + "\n};\n"
                f"const size_t n_api_cases = {len(rows)};\n")


if __name__ == "__main__":
    main()
