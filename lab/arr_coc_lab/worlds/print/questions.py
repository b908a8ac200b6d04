"""Questions about a sheet: what is asked, the answer's letters and boxes.

A question is made from the slots it names, so what it says is what stands in the picture, and what is asked for is
there to be read: whole words, all of them visible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from arr_coc.core.alphabet import PADDING, SPACE

from ..constants import constant
from ..needle.content import fill

if TYPE_CHECKING:
    from .layouts import Facts
    from .setting import Runs

# {0} is what is asked by, {1} a second name.
_WORDINGS = {
    "field": (
        "What is written for {0}?|What is written for {0}?|What is written for {0}?|What is written for {0}?|"
        "What is written for {0}?|What is {0}?|What is {0}?|What is the {0}?|What is the {0}?|What is the {0}?|"
        "What is the {0}?|{0}?|{0}?|{0}|{0}:|What does it say for {0}?|What is entered under {0}?|"
        "What stands next to {0}?|Read the {0}.|What is given as {0}?|Find the {0}.|What's the {0}?|"
        'What has been filled in for {0}?|What is the value of "{0}"?|Which {0} is given?|'
        "What is the content of the field {0}?"
    ),
    "right": (
        "What stands to the right of {0}?|What is right of {0}?|What stands beside {0}?|right of {0}|"
        "What is next to {0}?"
    ),
    "below": "What stands below {0}?|What is under {0}?|What is written below {0}?|below {0}|Read the line under {0}.",
    "above": "What stands above {0}?|What is over {0}?|What is written above {0}?|above {0}",
    "line": (
        "What does the line that starts with {0} say?|Read the line that begins with {0}.|"
        "Which line starts with {0}?|line starting with {0}|Complete the line: {0}"
    ),
    "next": "Which word follows {0}?|What comes after {0}?|word after {0}|What is the word behind {0}?",
    "title": (
        "What is the title?|What is the title of the page?|What does the headline say?|title|"
        "What is the heading?|What is the document called?|Read the title."
    ),
    "subtitle": "What is the subtitle?|What stands below the title?|Read the line under the title.|subtitle",
    "page": "What is the page number?|Which page is it?|page number|What does the page number say?",
    "cell": (
        "What is the {0} of {1}?|What is the {0} for {1}?|{0} of {1}|What was the {0} of {1}?|"
        "What does the table give as {0} for {1}?|{0}, {1}|Read {0} for {1}.|What {0} does {1} have?"
    ),
    "value": (
        "What is the value of {0}?|What is the value for {0}?|What is shown for {0}?|{0}|How much is {0}?|"
        "What was the value in {0}?|How high is {0}?|value of {0}|What number belongs to {0}?"
    ),
    "series": (
        "What is the value of {0} in {1}?|What is {0} for {1}?|{0}, {1}|How much is {0} in {1}?|"
        "value of {0} for {1}|What is shown for {0} in {1}?"
    ),
    "total": (
        "What is the total?|What is the total?|What is the total amount?|total|How much is to be paid?|"
        "What does it come to?|What is the amount due?|How much is the total?|Total?|What is the grand total?|"
        "What is the total due?|What is the final amount?|What is the total sum?|How much must be paid?"
    ),
    "subtotal": (
        "What is the subtotal?|What is the net amount?|subtotal|How much is it before tax?|"
        "What is the sum without tax?|How much is the subtotal?"
    ),
    "tax": "How much is the tax?|What is the tax?|What is the VAT?|tax|How much tax is there?|VAT?",
    "price": (
        "How much is the {0}?|What is the price of {0}?|What does the {0} cost?|{0} price|price of {0}|"
        "How much does {0} cost?|{0}|How much was paid for {0}?|What is the amount for {0}?"
    ),
    "amount": "What is the amount for {0}?|What is the total of {0}?|amount for {0}|How much is {0} in all?",
    "count": "How many {0} were bought?|What is the quantity of {0}?|{0} quantity|How many {0}?",
    "invoice": (
        "What is the invoice number?|invoice number|What is the number of the document?|"
        "Which number does the invoice have?|What is the invoice no.?|What is the receipt number?"
    ),
    "date": "What is the date?|What is the invoice date?|date|When was it issued?|Which date is given?|Date?",
    "seller": "Who is it from?|What is the name of the company?|Which company is it?|company|Who is the seller?",
    "none": "What is written here?|Read the text.",
}
# People ask a chart for what it is about, in words that may stand nowhere in it: the name alone tells what to read.
_ABOUT = (
    "population|revenue|unemployment rate|number of users|market share|gross domestic product|value of exports|"
    "average price|share of respondents|net income|birth rate|number of deaths|sales volume|budget|inflation rate"
)
_OF_CHARTS = {
    "value": (
        "What was the {about} in {0}?|What is the {about} of {0}?",
        "How many people chose {0}?|What percentage said {0}?|How many people lived in {0}?|In {0}, what was it?|"
        "How many were there in {0}?|How many dollars did {0} spend?|What percent is {0}?",
    ),
    "series": (
        "What was the {about} of {0} in {1}?",
        "What percentage of {0} said {1}?|How many {0} were there in {1}?|How much did {0} make in {1}?",
    ),
}


def _of_chart(frames: str, others: str) -> list[str]:
    asked = [frame.replace("{about}", one) for frame in frames.split("|") for one in _ABOUT.split("|")]
    return [*asked, *others.split("|")]


WORDINGS = {name: tuple(texts.split("|")) for name, texts in _WORDINGS.items()}
WORDINGS |= {name: (*WORDINGS[name] * 3, *_of_chart(*texts)) for name, texts in _OF_CHARTS.items()}
GROUP = {name: number for number, name in enumerate(WORDINGS)}
# How a long question is asked for short: by the names alone.
SHORT = "{0}{1}?"


def _placed(text: str) -> str:
    """Every template holds both places; where nothing is named, they stand at the end and stay empty."""
    for place in ("{0}", "{1}"):
        if place not in text:
            text += place
    return text


TEMPLATES = tuple(_placed(text) for texts in WORDINGS.values() for text in texts)
COUNTS = tuple(len(texts) for texts in WORDINGS.values())
NAMES_LABEL = tuple("{0}" in texts[0] for texts in WORDINGS.values())


class Spans(NamedTuple):
    """Pieces of text. ids: (B, F, 96) int64, left-justified. boxes: (B, F, 4) pixels. letters: (B, F, 96) bool, which
    of a slot's letters they are."""

    ids: Tensor
    boxes: Tensor
    letters: Tensor


def spans(runs: Runs, extent: Tensor, slot: Tensor, first_word: Tensor, words: Tensor) -> Spans:
    """Words first_word … of the spoken text of slots (B, F); 0 words for all of it. extent: (B, R, 4)."""
    rows = torch.arange(len(slot), device=slot.device)[:, None]
    slot = slot.clamp_min(0)
    ids, start, advance = runs.ids[rows, slot], runs.start[rows, slot], runs.advance[rows, slot]
    place = torch.arange(ids.shape[-1], device=ids.device)
    word = (ids == SPACE).cumsum(-1)
    first, last = first_word[..., None], (first_word + words)[..., None]
    wanted = (words[..., None] == 0) | ((word >= first) & (word < last))
    wanted &= (place < runs.spoken[rows, slot][..., None]) & (ids > 0)
    # The blank in front of a word counts with it; it is no part of the span.
    wanted &= ~((ids == SPACE) & (word == first) & (words[..., None] > 0) & (first > 0))
    kept = ids * wanted
    order = (kept == PADDING).to(torch.uint8).argsort(dim=-1, stable=True)
    left = torch.where(wanted, start, 1e6).amin(-1)
    right = torch.where(wanted, start + advance, -1e6).amax(-1)
    _, top, _, bottom = extent[rows, slot].unbind(-1)
    return Spans(kept.gather(-1, order), torch.stack([left, top, right, bottom], -1), wanted & (ids != SPACE))


def ask(facts: Facts, label: Tensor, second: Tensor, wording: Tensor, answer: Tensor, room: int) -> Tensor:
    """(B, F, 96) identifiers of the questions. label, second: (B, F, L) what they name; wording: (B, F) 32 random bits.
    answer: (B, F, A). room: for question and answer; those that would be longer are asked for short."""
    device = label.device
    counts = constant(COUNTS, device=device)
    first = counts.cumsum(0) - counts
    group = facts.group
    index = first[group] + ((wording * counts[group]) >> 32)
    says = constant(NAMES_LABEL, device=device)[group][..., None]
    named, other = label * says, second * (facts.second >= 0)[..., None]
    long = fill(TEMPLATES, index, [named, other], 96)
    comma = fill((", {0}",), torch.zeros_like(index), [other], other.shape[-1] + 2) * (facts.second >= 0)[..., None]
    short = fill((SHORT,), torch.zeros_like(index), [named, comma], 96)
    length = (long > 0).sum(-1) + (answer > 0).sum(-1)
    whole = (long[..., -1] == 0) & (length <= room)
    return torch.where(whole[..., None], long, short)
