#!/usr/bin/env python3
"""Decoding with Hugging Face transformers: an engine that knows nothing of tgemm.

    python3 transformers_decode.py --model llama --layers 8 --batch 1,4,16 --steps 64 [--graphs] [--compare]

Random weights at the layer sizes of Llama-3.1-8B or Qwen3-8B, a static cache, one token a step; with --graphs a step is one
CUDA graph. Prints one JSON object a batch: what linear layers it ran (M, N, K and how often, as the model's own modules say)
and tokens per second.

--compare, under `tune apply`: the same steps with the shim paused and not, in turn: logits of both against float32, and times.
"""

import argparse
import ctypes
import json
import statistics
import sys
import time

import torch
from transformers import AutoModelForCausalLM, LlamaConfig, Qwen3Config, StaticCache

SIZES = {
    "llama": (LlamaConfig, dict(hidden_size=4096, intermediate_size=14336, num_attention_heads=32, num_key_value_heads=8, vocab_size=128256)),
    "qwen3": (Qwen3Config, dict(hidden_size=4096, intermediate_size=12288, num_attention_heads=32, num_key_value_heads=8, head_dim=128, vocab_size=151936)),
    "tiny": (LlamaConfig, dict(hidden_size=64, intermediate_size=128, num_attention_heads=4, num_key_value_heads=2, vocab_size=256)),
}


def model_of(name, layers, device, dtype):
    config_class, sizes = SIZES[name]
    config = config_class(num_hidden_layers=layers, max_position_embeddings=2048, tie_word_embeddings=False, **sizes)
    torch.manual_seed(1)
    with torch.device(device):
        model = AutoModelForCausalLM.from_config(config, dtype=dtype, attn_implementation="sdpa")
    return model.eval()


class Linears:
    """Counts the calls of the model's linear layers, as (M, N, K)."""

    def __init__(self, model):
        self.calls = {}
        for module in model.modules():
            if isinstance(module, torch.nn.Linear):
                module.register_forward_hook(self.note)

    def note(self, module, inputs, output):
        rows = inputs[0].numel() // module.in_features
        key = (rows, module.out_features, module.in_features)
        self.calls[key] = self.calls.get(key, 0) + 1

    def take(self):
        calls, self.calls = self.calls, {}
        return calls


class Decoder:
    def __init__(self, model, batch, length, device):
        self.model, self.device, self.batch = model, device, batch
        self.cache = StaticCache(config=model.config, max_cache_len=length)
        self.tokens = torch.zeros(batch, 1, dtype=torch.long, device=device)
        self.graph = None
        self.logits = None

    @torch.no_grad()
    def prefill(self, prompt):
        self.cache.reset()
        return self.model(input_ids=prompt, past_key_values=self.cache, use_cache=True).logits[:, -1].float()

    @torch.no_grad()
    def eager(self):
        return self.model(input_ids=self.tokens, past_key_values=self.cache, use_cache=True).logits[:, -1]

    @torch.no_grad()
    def capture(self):
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(2):
                self.eager()
        torch.cuda.current_stream().wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.logits = self.eager()

    def step(self):
        if self.graph is None:
            return self.eager()
        self.graph.replay()
        return self.logits


def synchronize(device):
    if device == "cuda":
        torch.cuda.synchronize()


def plus(into, calls, times=1):
    for key, count in calls.items():
        into[key] = into.get(key, 0) + count * times


def run(args, model, batch, device):
    """Prefill, then steps; what it ran and how fast."""
    linears, ran = Linears(model), {}
    length = args.prompt + args.steps + 16
    decoder = Decoder(model, batch, length, device)
    prompt = torch.randint(0, model.config.vocab_size, (batch, args.prompt), device=device)
    decoder.prefill(prompt)
    decoder.eager()
    plus(ran, linears.take())
    if args.graphs:
        decoder.capture()
        calls = linears.take()
        # Two warm steps ran; the captured one has not, and is in every replay.
        one = {key: count // 3 for key, count in calls.items()}
        plus(ran, one, 2)
    synchronize(device)
    start = time.perf_counter()
    for _ in range(args.steps):
        decoder.tokens.copy_(decoder.step().argmax(-1, keepdim=True))
    synchronize(device)
    seconds = time.perf_counter() - start
    if args.graphs:
        linears.take()
        plus(ran, one, args.steps)
    else:
        plus(ran, linears.take())
    return dict(batch=batch, graphs=bool(args.graphs), tokens_per_s=batch * args.steps / seconds, ran=[[*key, count] for key, count in sorted(ran.items())])


def pause(paused):
    """Stops and starts the shim of this process; False where there is none."""
    try:
        ctypes.CDLL(None).tgemm_shim_pause(1 if paused else 0)
        return True
    except AttributeError:
        return False


def logits_of(model, batch, args, device, tokens):
    """Teacher-forced: the logits of every step over given tokens."""
    decoder = Decoder(model, batch, tokens.shape[1] + 8, device)
    decoder.prefill(tokens[:, : args.prompt])
    logits = []
    for at in range(args.prompt, tokens.shape[1]):
        decoder.tokens.copy_(tokens[:, at : at + 1])
        logits.append(decoder.eager().float().cpu())
    return torch.stack(logits)


def pair_of(args, model, batch, device, tokens):
    """Decoders made with the shim paused (0) and at work (1)."""
    pair = []
    for on in (0, 1):
        pause(not on)
        # A replay goes on where the last one ended: room for all of them.
        decoder = Decoder(model, batch, args.prompt + 2 * args.blocks * args.inner + 16, device)
        decoder.prefill(tokens[:, : args.prompt])
        decoder.eager()
        decoder.capture() if args.graphs else None
        pair.append(decoder)
    return pair


# Student's t at 97.5 %, by degrees of freedom.
T_975 = [0, 12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131]


def interval_95(values):
    """Of the mean; None of one value alone."""
    if len(values) < 2:
        return None
    half = T_975[min(len(values), len(T_975)) - 1] * statistics.stdev(values) / len(values) ** 0.5
    return [statistics.mean(values) - half, statistics.mean(values) + half]


def compare(args, model, exact, batch, device):
    """Logits and step times with the shim paused (0) and at work (1), in turn.

    Where a capture's buffers happen to lie moves a step by up to 1 %, whatever runs: so there are several captures of each,
    all alive at once, and the interval is of the mean over them.
    """
    generator = torch.Generator().manual_seed(7)
    tokens = torch.randint(0, model.config.vocab_size, (batch, args.prompt + 16), generator=generator).to(device)
    logits = {}
    for on in (0, 1):
        if not pause(not on):
            sys.exit("no shim in this process: run it under tune apply")
        logits[on] = logits_of(model, batch, args, device, tokens)
    pause(True)
    truth = logits_of(exact, batch, args, device, tokens)
    errors = [(logits[on] - truth).abs() for on in (0, 1)]
    bound = 2 * float(errors[0].max())
    top = logits[0].topk(2, dim=-1)
    sure = (top.values[..., 0] - top.values[..., 1]) > bound
    agree = logits[0].argmax(-1) == logits[1].argmax(-1)

    captures = [pair_of(args, model, batch, device, tokens) for _ in range(args.captures)]
    # By capture, without and with: microseconds a step, block after block.
    times = [([], []) for _ in captures]
    for block in range(args.blocks):
        for pair, taken in zip(captures, times):
            order = (0, 1, 1, 0) if block % 2 == 0 else (1, 0, 0, 1)
            for on in order:
                pause(not on)
                decoder = pair[on]
                if decoder.graph is None:
                    # So that the cache does not run over: its place is the same in every block.
                    decoder.prefill(tokens[:, : args.prompt])
                synchronize(device)
                start = time.perf_counter()
                for _ in range(args.inner):
                    decoder.step()
                synchronize(device)
                taken[on].append((time.perf_counter() - start) / args.inner * 1e6)
    pause(False)
    step_us = [[statistics.median(taken[on]) for taken in times] for on in (0, 1)]
    saved = [a - b for a, b in zip(*step_us)]
    return dict(
        batch=batch,
        graphs=bool(args.graphs),
        step_us=[statistics.mean(taken) for taken in step_us],
        saved_us=statistics.mean(saved),
        saved_us_95=interval_95(saved),
        saved_us_each=[round(us, 1) for us in saved],
        rms_error=[float(e.pow(2).mean().sqrt()) for e in errors],
        max_error=[float(e.max()) for e in errors],
        sure=int(sure.sum()),
        sure_agree=int((agree & sure).sum()),
        agree=int(agree.sum()),
        of=int(agree.numel()),
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=SIZES, default="tiny")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--batch", default="1")
    parser.add_argument("--prompt", type=int, default=32)
    parser.add_argument("--steps", type=int, default=64)
    parser.add_argument("--blocks", type=int, default=30, help="of each capture, with --compare")
    parser.add_argument("--captures", type=int, default=8, help="with --compare: decoders without and with choices")
    parser.add_argument("--inner", type=int, default=8)
    parser.add_argument("--graphs", action="store_true")
    parser.add_argument("--compare", action="store_true")
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = model_of(args.model, args.layers, device, torch.bfloat16)
    exact = None
    if args.compare:
        pause(True)
        torch.backends.cuda.matmul.allow_tf32 = False
        exact = model_of(args.model, args.layers, device, torch.float32)
        exact.load_state_dict({name: value.float() for name, value in model.state_dict().items()})
        pause(False)
    for batch in map(int, args.batch.split(",")):
        result = compare(args, model, exact, batch, device) if args.compare else run(args, model, batch, device)
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
