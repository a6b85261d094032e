#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ONNX Runtime GenAI's Generator on the CPU, in the manner of llama-bench.

  VENV/bin/python bench/peers/run_genai.py -m FOLDER -t 2 -p 512 -n 128 -d 0 -r 1 -o json

Caches are f32, of the length that the test wants, shared between past and present.
"""
import json
import os
import sys

import peer


class Engine:
    def __init__(self, model, threads, room):
        import numpy as np
        import onnxruntime_genai as og
        self.og, self.np, self.room = og, np, room
        with open(os.path.join(model, "genai_config.json"), encoding="utf-8") as f:
            config = json.load(f)["model"]
        c = og.Config(model)
        c.overlay(json.dumps({"model": {"decoder": {"session_options": {"intra_op_num_threads": threads}}}}))
        self.model = og.Model(c)
        self.vocab = config["vocab_size"]
        self.label = f"{config['decoder']['session_options']['log_id']}, GenAI {og.__version__}"
        self.generator = None

    def reset(self):
        params = self.og.GeneratorParams(self.model)
        # min_length: an end of the text does not end a test
        params.set_search_options(max_length=self.room, min_length=self.room, do_sample=False)
        self.generator = None  # two would hold two caches
        self.generator = self.og.Generator(self.model, params)

    def prompt(self, ids):
        self.generator.append_tokens(self.np.array(ids, self.np.int32))

    def pick(self):
        """The generator samples where it has logits, and computes its last token first where it has none."""
        self.generator.generate_next_token()
        if self.generator.is_done():
            raise peer.Refused("the generator ended the text")

    def step(self, token):
        del token  # the generator's own
        self.pick()


if __name__ == "__main__":
    sys.exit(peer.main(__doc__, "onnxruntime-genai", Engine))
