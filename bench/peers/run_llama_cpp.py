#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""llama.cpp through PyPI's llama-cpp-python, in the manner of llama-bench.

  VENV/bin/python bench/peers/run_llama_cpp.py -m model.gguf -t 2 -p 512 -n 128 -d 0 -r 1 -o json

llama-bench's own settings: batches of 2048, 512 at once, caches in f16, and no flash attention, which its CPU code is slower with: behind
1,000 positions 7.4 tokens per second with and 13.2 without it (1.1B, Q4_0).
"""
import ctypes
import sys

import peer


class Engine(peer.Greedy):
    def __init__(self, model, threads, room):
        import llama_cpp
        import numpy as np
        self.lib, self.np = llama_cpp, np
        self.quiet = llama_cpp.llama_log_callback(lambda level, text, data: None)
        llama_cpp.llama_log_set(self.quiet, ctypes.c_void_p(0))
        llama_cpp.llama_backend_init()
        self.model = llama_cpp.llama_model_load_from_file(model.encode(), llama_cpp.llama_model_default_params())
        if not self.model:
            raise peer.Refused("llama.cpp cannot load this GGUF file")
        p = llama_cpp.llama_context_default_params()
        p.n_ctx, p.n_batch, p.n_ubatch = room, 2048, 512
        p.n_threads = p.n_threads_batch = threads
        p.flash_attn_type = llama_cpp.LLAMA_FLASH_ATTN_TYPE_DISABLED
        self.context = llama_cpp.llama_init_from_model(self.model, p)
        if not self.context:
            raise peer.Refused(f"llama.cpp makes no context of {room} positions")
        self.vocab = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(self.model))
        text = ctypes.create_string_buffer(128)
        llama_cpp.llama_model_desc(self.model, text, len(text))
        self.label = f"{text.value.decode()}, llama-cpp-python {llama_cpp.__version__}"

    def reset(self):
        self.lib.llama_memory_clear(self.lib.llama_get_memory(self.context), True)

    def prompt(self, ids):
        for i in range(0, len(ids), 2048):
            part = ids[i:i + 2048]
            tokens = (self.lib.llama_token * len(part))(*part)  # the batch points to it
            rc = self.lib.llama_decode(self.context, self.lib.llama_batch_get_one(tokens, len(part)))
            if rc:
                raise peer.Refused(f"llama_decode gave {rc}")
        self.logits = self.np.ctypeslib.as_array(self.lib.llama_get_logits_ith(self.context, -1), shape=(self.vocab,))


if __name__ == "__main__":
    sys.exit(peer.main(__doc__, "llama-cpp-python", Engine))
