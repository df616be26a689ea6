#!/usr/bin/env python3
"""Writes tests/trainer/steps/goldens-trl: a small policy and its reference as Hugging Face checkpoints, batches of
tokens, and the losses and gradients that TRL's own trainers compute from them, in fp32; and
tests/trainer/data/goldens/trl_pairs.json: preference rows with the tokens that TRL makes of them, some of them
in pairs.parquet too.

Usage: tools/make_goldens/trl_losses.py      needs trl (written with 1.16.0), transformers, datasets, torch
"""
import json
import shutil
import tempfile
from pathlib import Path

import torch
from datasets import Dataset
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast
from trl import DPOConfig, DPOTrainer, GRPOConfig, GRPOTrainer
from trl.trainer.dpo_trainer import DataCollatorForPreference
import trl

TESTS = Path(__file__).resolve().parents[2] / "tests/trainer"
FOLDER = TESTS / "steps/goldens-trl"
VOCAB = 37
CONFIG = {
    "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_act": "silu", "rms_norm_eps": 1e-6,
    "hidden_size": 12, "intermediate_size": 14, "num_hidden_layers": 2, "num_attention_heads": 3,
    "num_key_value_heads": 1, "vocab_size": VOCAB, "max_position_embeddings": 64, "rope_theta": 10000.0,
    "tie_word_embeddings": True, "attention_dropout": 0.0, "use_sliding_window": False, "bos_token_id": 0,
    "eos_token_id": 1, "torch_dtype": "float32",
}
TEMPERATURE = 0.9


def make_models():
    shutil.rmtree(FOLDER, ignore_errors=True)
    torch.manual_seed(5)
    base = None
    for name in ("policy", "reference"):
        folder = FOLDER / name
        folder.mkdir(parents=True)
        (folder / "config.json").write_text(json.dumps(CONFIG, indent=1) + "\n")
        model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder))
        weights = {}
        for key, parameter in model.named_parameters():
            spread = 0.3 if parameter.dim() == 1 else parameter.shape[1] ** -0.5
            weights[key] = torch.randn(parameter.shape) * spread + ("norm" in key)
        if base is None:
            base = weights
        else:  # near the policy, as a reference is
            weights = {key: base[key] + 0.05 * weights[key] for key in base}
        save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def load(name):
    return AutoModelForCausalLM.from_pretrained(FOLDER / name, dtype=torch.float32, attn_implementation="eager")


def tokenizer():
    """Of no importance: the batches are tokens already."""
    made = PreTrainedTokenizerFast(tokenizer_file=str(TESTS / "text/goldens/small_tokenizer.json"))
    made.eos_token = made.pad_token = "<|endoftext|>"
    return made


def gradient(model):
    flat = torch.cat([parameter.grad.flatten() for _, parameter in model.named_parameters()])
    model.zero_grad()
    return flat


def ids(count):
    return torch.randint(2, VOCAB, (count,)).tolist()


def common(folder):
    return dict(output_dir=folder, use_cpu=True, bf16=False, report_to=[], gradient_checkpointing=False)


DPO_CASES = [{"loss_type": kind, "beta": beta, "label_smoothing": smoothing, "sft_coef": 0.0}
             for kind, beta, smoothing in [
                 ("sigmoid", 0.1, 0.0), ("sigmoid", 0.5, 0.0), ("sigmoid_norm", 2.0, 0.0), ("hinge", 0.1, 0.0),
                 ("ipo", 0.1, 0.0), ("robust", 0.1, 0.1), ("exo_pair", 0.1, 0.001), ("nca_pair", 0.1, 0.0),
                 ("bco_pair", 0.1, 0.0), ("apo_zero", 0.1, 0.0), ("apo_down", 0.1, 0.0), ("sppo_hard", 0.1, 0.0)]]
DPO_CASES.append({"loss_type": "sigmoid", "beta": 0.1, "label_smoothing": 0.0, "sft_coef": 0.3})


def make_dpo(tensors):
    torch.manual_seed(6)
    lengths = [(4, 5, 3), (1, 1, 6), (7, 9, 9), (3, 12, 2), (5, 4, 8)]
    pairs = [{"prompt_ids": ids(p), "chosen_ids": ids(c), "rejected_ids": ids(r)} for p, c, r in lengths]
    cases = []
    with tempfile.TemporaryDirectory() as folder:
        rows = Dataset.from_list([{"prompt": "a", "chosen": "b", "rejected": "c"}] * 4)
        trainer = DPOTrainer(model=load("policy"), ref_model=load("reference"), args=DPOConfig(**common(folder)),
                             train_dataset=rows, processing_class=tokenizer())
        trainer.model.train()
        batch = DataCollatorForPreference(pad_token_id=0)(pairs)
        for case in DPO_CASES:
            trainer.beta, trainer.label_smoothing = case["beta"], case["label_smoothing"]
            trainer.loss_types, trainer.loss_weights = [case["loss_type"]], [1.0]
            if case["sft_coef"]:
                trainer.loss_types.append("sft")
                trainer.loss_weights.append(case["sft_coef"])
            trainer._metrics["train"].clear()
            loss = trainer._compute_loss(trainer.model, batch, return_outputs=False)
            loss.backward()
            told = {name: values[0] for name, values in trainer._metrics["train"].items()
                    if name.split("/")[0] in ("rewards", "logps")}
            tensors[f"dpo.{len(cases)}"] = gradient(trainer.model)
            cases.append(case | {"loss": loss.item(), "metrics": told})
    return {"pairs": pairs, "cases": cases}


GRPO_LOSSES = [("grpo", "token"), ("bnpo", "token"), ("dapo", "token"), ("dr_grpo", "token"), ("grpo", "sequence"),
               ("cispo", "token"), ("sapo", "token")]


def padded(rows, side, fill=0):
    width = max(len(row) for row in rows)
    add = lambda row: [fill] * (width - len(row))
    return torch.tensor([add(row) + row if side == "left" else row + add(row) for row in rows])


def make_grpo(tensors):
    torch.manual_seed(7)
    groups = []
    for prompt, lengths in [(4, [6, 3, 8]), (9, [1, 7, 5]), (2, [10, 4, 2])]:
        groups.append({"prompt": ids(prompt), "responses": [ids(n) for n in lengths]})
    prompts = [group["prompt"] for group in groups for _ in group["responses"]]
    answers = [answer for group in groups for answer in group["responses"]]
    ones = lambda rows: [[1] * len(row) for row in rows]
    inputs = {"prompt_ids": padded(prompts, "left"), "prompt_mask": padded(ones(prompts), "left"),
              "completion_ids": padded(answers, "right"), "completion_mask": padded(ones(answers), "right"),
              "advantages": torch.randn(len(answers))}
    longest = 12
    with tempfile.TemporaryDirectory() as folder:
        args = GRPOConfig(**common(folder), temperature=TEMPERATURE, max_completion_length=longest, num_generations=3,
                          per_device_train_batch_size=9, epsilon=0.2, epsilon_high=0.28, sapo_temperature_pos=1.0,
                          sapo_temperature_neg=1.05)
        trainer = GRPOTrainer(model=load("policy"), reward_funcs=lambda completions, **more: [0.0] * len(completions),
                              args=args, train_dataset=Dataset.from_list([{"prompt": "a"}] * 9),
                              processing_class=tokenizer())
        trainer.model.train()
        trainer.current_gradient_accumulation_steps = trainer.args.steps_per_generation = 1
        tokens = torch.cat([inputs["prompt_ids"], inputs["completion_ids"]], 1)
        mask = torch.cat([inputs["prompt_mask"], inputs["completion_mask"]], 1)
        with torch.no_grad():
            log_probs = lambda model: trainer._get_per_token_logps_and_entropies(
                model, tokens, mask, inputs["completion_ids"].shape[1])[0]
            # Of a policy some updates ago: some ratios are clipped.
            old = log_probs(trainer.model)
            old = old + 0.25 * torch.randn_like(old)
        cut = lambda matrix: [row[:len(answer)] for row, answer in zip(matrix.tolist(), answers)]
        inputs["old_per_token_logps"] = old
        inputs["ref_per_token_logps"] = reference_log_probs(tokens, mask, inputs["completion_ids"].shape[1])
        holes = (torch.rand(inputs["completion_ids"].shape) > 0.3).long()
        holes[:, 0] = 1  # TRL counts a response without any token as one, verl and we do not
        cases = []
        for tool_mask in (False, True):
            for loss_type, level in GRPO_LOSSES[::2] if tool_mask else GRPO_LOSSES:
                for beta, corrected in ((0.0, False), (0.04, False), (0.04, True)):
                    given = dict(inputs)
                    if tool_mask:
                        given["tool_mask"] = holes
                    kept = inputs["completion_mask"] * (holes if tool_mask else 1)
                    given["num_items_in_batch"] = kept.sum()
                    trainer.loss_type, trainer.importance_sampling_level, trainer.beta = loss_type, level, beta
                    trainer.args.use_bias_correction_kl = corrected
                    # cispo's bound is of the ratio itself.
                    trainer.epsilon_high = 1.28 if loss_type == "cispo" else 0.28
                    loss = trainer._compute_loss(trainer.model, given)
                    loss.backward()
                    tensors[f"grpo.{len(cases)}"] = gradient(trainer.model)
                    cases.append({"loss_type": loss_type, "level": level, "beta": beta, "corrected": corrected, "tool_mask": tool_mask,
                                  "loss": loss.item()})
    return {"groups": groups, "temperature": TEMPERATURE, "max_completion_length": longest,
            "advantages": inputs["advantages"].tolist(), "old": cut(old), "tool_mask": cut(holes), "cases": cases}


@torch.no_grad()
def reference_log_probs(tokens, mask, kept):
    logits = load("reference")(input_ids=tokens, attention_mask=mask).logits[:, -kept - 1:-1] / TEMPERATURE
    return logits.log_softmax(-1).gather(-1, tokens[:, -kept:, None])[..., 0]


CHATML = ("{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
          "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")
says = lambda role, content: {"role": role, "content": content}
ROWS = {
    "explicit text": [
        {"prompt": "The sky is", "chosen": " blue.", "rejected": " green."},
        {"prompt": "Q: 3 + 4\nA:", "chosen": " 7", "rejected": " 12, or so<|endoftext|>"},
        {"prompt": "naïve — ", "chosen": "über", "rejected": "ünter"},
        {"prompt": "the the", "chosen": "", "rejected": "the"},
    ],
    "implicit text": [
        {"chosen": "The sky is blue.", "rejected": "The sky is green."},
        {"chosen": "A: thinking about", "rejected": "A: thinly"},
        {"chosen": "one two", "rejected": "one"},
    ],
    "explicit chat": [
        {"prompt": [says("user", "What is 3 + 4?")], "chosen": [says("assistant", "7")],
         "rejected": [says("assistant", "12")]},
        {"prompt": [says("system", "Be short."), says("user", "Hi")], "chosen": [says("assistant", " Hello! ")],
         "rejected": [says("assistant", "Who are you, and what do you want of me?")]},
        {"prompt": [says("user", "Hi")],
         "chosen": [says("assistant", "Hello"), says("user", "And?"), says("assistant", "Well.")],
         "rejected": [says("assistant", "Hello"), says("user", "And?"), says("assistant", "")]},
    ],
    "implicit chat": [
        {"chosen": [says("user", "What is 3 + 4?"), says("assistant", "7")],
         "rejected": [says("user", "What is 3 + 4?"), says("assistant", "8")]},
        {"chosen": [says("user", "Hi"), says("assistant", "Hello"), says("user", "More"), says("assistant", "No.")],
         "rejected": [says("user", "Hi"), says("assistant", "Hello"), says("user", "More"), says("assistant", "Yes")]},
    ],
}


def make_pairs():
    sets = []
    with tempfile.TemporaryDirectory() as folder:
        for form, rows in ROWS.items():
            made = tokenizer()
            made.chat_template = CHATML
            # 1.16 judges from one example whether prompts are apart, and whether there are conversations.
            trainer = DPOTrainer(model=load("policy"), ref_model=load("reference"),
                                 args=DPOConfig(**common(folder), max_length=None), train_dataset=Dataset.from_list(rows),
                                 processing_class=made)
            for row, tokens in zip(rows, trainer.train_dataset):
                sets.append({"form": form, "row": row, "prompt": tokens["prompt_ids"], "chosen": tokens["chosen_ids"],
                             "rejected": tokens["rejected_ids"]})
    Dataset.from_list(ROWS["implicit chat"]).to_parquet(TESTS / "data/goldens/pairs.parquet")
    path = TESTS / "data/goldens/trl_pairs.json"
    path.write_text(json.dumps({"trl": trl.__version__, "chat_template": CHATML, "rows": sets}, indent=0,
                               ensure_ascii=False) + "\n")
    print(path, path.stat().st_size)


def main():
    make_models()
    tensors = {}
    cases = {"trl": trl.__version__, "parameters": [[name, list(parameter.shape)] for name, parameter in
                                                    load("policy").named_parameters()],
             "dpo": make_dpo(tensors), "grpo": make_grpo(tensors)}
    save_file(tensors, FOLDER / "gradients.safetensors")
    (FOLDER / "cases.json").write_text(json.dumps(cases, separators=(",", ":")) + "\n")
    for file in FOLDER.rglob("*"):
        if file.is_file():
            print(file, file.stat().st_size)
    make_pairs()


if __name__ == "__main__":
    main()
