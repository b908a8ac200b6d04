"""Ask a stock Qwen3-VL about a picture, at a fixed budget of visual tokens, with one line added: `attach`.

    python examples/qwen3_vl_foveated.py --image street.jpg --question "What does the small sign say?" --budget 256

The model is the unmodified Hugging Face class. It first glances at a coarse view, and the places where the question's
tokens look get the detail; the vision encoder then sees only as many patches as the budget allows.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import torch
from PIL import Image
from transformers import AutoModelForImageTextToText

from arr_coc import attach
from arr_coc.realizing.query import load_processor


def main(arguments: Sequence[str] | None = None) -> str:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="Qwen/Qwen3-VL-2B-Instruct", help="a name on the hub, or a folder")
    parser.add_argument("--image", required=True, nargs="+", help="one picture, or several for one question")
    parser.add_argument("--question", required=True)
    parser.add_argument("--budget", type=int, default=256, help="visual tokens each picture may cost")
    parser.add_argument("--relevance", choices=("glance", "look", "detail"), default="glance")
    parser.add_argument("--new-tokens", type=int, default=128)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options = parser.parse_args(arguments)

    processor = load_processor(options.model)
    model = AutoModelForImageTextToText.from_pretrained(options.model, dtype="auto").to(options.device).eval()

    pictures = [Image.open(path).convert("RGB") for path in options.image]
    content = [
        *({"type": "image", "image": picture} for picture in pictures),
        {"type": "text", "text": options.question},
    ]
    inputs = processor.apply_chat_template(
        [{"role": "user", "content": content}],
        add_generation_prompt=True,
        tokenize=True,
        return_dict=True,
        return_tensors="pt",
    ).to(options.device)

    with attach(model, processor, budget=options.budget, relevance=options.relevance) as foveation:
        output = model.generate(**inputs, max_new_tokens=options.new_tokens, do_sample=False)

    answer = processor.batch_decode(output[:, inputs["input_ids"].shape[1] :], skip_special_tokens=True)[0]
    for path, allocation in zip(options.image, foveation.last, strict=True):
        print(f"{path}: {allocation.tokens} of {allocation.full} tokens, by level {allocation.tokens_by_level()}")
    print(answer)
    return answer


if __name__ == "__main__":
    main()
