"""How lmms-eval reads a row of Needle World."""

from pathlib import Path

from PIL import Image


def visual(doc):
    return [Image.open(Path("needle") / doc["image"]).convert("RGB")]


def text(doc, lmms_eval_specific_kwargs=None):
    return doc["query"]


def results(doc, results):
    return {"exact_match": float(results[0].strip() == doc["answer"])}
